extension JSONTokens {
  /// Reads a text; `nil` for what is not JSON, and for what is better left to Foundation: escapes,
  /// fractions, large numbers, keys that come twice.
  static func value(of bytes: UnsafeRawBufferPointer) -> JSONValue? {
    var tokens = JSONTokens()
    return tokens.read(bytes) ? tokens.value(at: 0, in: bytes) : nil
  }

  private func value(at index: Int, in bytes: UnsafeRawBufferPointer) -> JSONValue? {
    let token = list[index]
    switch token.kind {
    case .null: return .null
    case .true: return .bool(true)
    case .false: return .bool(false)
    case .string: return string(token, in: bytes).map { .string($0) }
    case .number: return integer(token, in: bytes).map { .integer($0) }
    case .escapedString: return nil
    case .array:
      var values: [JSONValue] = []
      values.reserveCapacity(Int(token.count))
      var place = index + 1
      while place < token.next {
        guard let element = value(at: place, in: bytes) else { return nil }
        values.append(element)
        place = Int(list[place].next)
      }
      return .array(values)
    case .object:
      var members: [String: JSONValue] = [:]
      members.reserveCapacity(Int(token.count))
      var place = index + 1
      while place < token.next {
        guard list[place].kind == .string, let key = string(list[place], in: bytes),
          let member = value(at: place + 1, in: bytes),
          members.updateValue(member, forKey: key) == nil
        else { return nil }
        place = Int(list[place + 1].next)
      }
      return .object(members)
    }
  }

  private func string(_ token: Token, in bytes: UnsafeRawBufferPointer) -> String? {
    String(validating: bytes[Int(token.start)..<Int(token.end)], as: UTF8.self)
  }

  private func integer(_ token: Token, in bytes: UnsafeRawBufferPointer) -> Int64? {
    var place = Int(token.start)
    let isNegative = bytes[place] == UInt8(ascii: "-")
    if isNegative { place += 1 }
    // Eighteen digits cannot overflow.
    guard Int(token.end) - place <= 18 else { return nil }
    var number: Int64 = 0
    while place < token.end {
      let digit = bytes[place] &- 0x30
      guard digit < 10 else { return nil }
      number = number &* 10 &+ Int64(digit)
      place += 1
    }
    return isNegative ? -number : number
  }
}
