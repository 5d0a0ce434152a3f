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
    case .string: return string(at: index, in: bytes).map { .string($0) }
    case .number: return integer(at: index, in: bytes).map { .integer($0) }
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
        guard let key = string(at: place, in: bytes),
          let member = value(at: place + 1, in: bytes),
          members.updateValue(member, forKey: key) == nil
        else { return nil }
        place = Int(list[place + 1].next)
      }
      return .object(members)
    }
  }
}
