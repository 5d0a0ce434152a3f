/// A part of a YAML document, with its place.
package struct YAMLNode: Sendable {
  /// What a node holds. A mapping keeps its entries in order, duplicates included.
  package enum Content: Sendable {
    case scalar(YAMLScalar)
    case sequence([YAMLNode])
    case mapping([YAMLEntry])
  }

  /// What the node holds.
  package var content: Content
  /// Where it starts; an alias stands where its anchor does.
  package var mark: SourceMark

  /// The node in a few words, for a message: `60`, `a list`.
  package var summary: String {
    switch content {
    case .scalar(let scalar) where scalar.text.isEmpty: scalar.isPlain ? "nothing" : "''"
    case .scalar(let scalar) where scalar.text.count > 40: "'\(scalar.text.prefix(40))…'"
    case .scalar(let scalar): scalar.value.string == nil ? scalar.text : "'\(scalar.text)'"
    case .sequence: "a list"
    case .mapping: "a mapping"
    }
  }
}

/// One key and its value.
package struct YAMLEntry: Sendable {
  package var key: String
  package var keyMark: SourceMark
  package var value: YAMLNode
}

/// Text of a scalar, and whether it stood without quotes.
package struct YAMLScalar: Sendable {
  package var text: String
  package var isPlain: Bool

  package init(text: String, isPlain: Bool) {
    self.text = text
    self.isPlain = isPlain
  }

  /// The value by the core schema of YAML 1.2: `yes`, `on` and `010` are no booleans or octals.
  package var value: JSONValue {
    guard isPlain else { return .string(text) }
    switch text {
    case "", "~", "null", "Null", "NULL": return .null
    case "true", "True", "TRUE": return .bool(true)
    case "false", "False", "FALSE": return .bool(false)
    case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF": return .number(.infinity)
    case "-.inf", "-.Inf", "-.INF": return .number(-.infinity)
    case ".nan", ".NaN", ".NAN": return .number(.nan)
    default: return Self.number(Array(text.utf8)) ?? .string(text)
    }
  }

  private static func number(_ bytes: [UInt8]) -> JSONValue? {
    let text = String(decoding: bytes, as: UTF8.self)
    if bytes.starts(with: "0x".utf8) { return whole(text.dropFirst(2), radix: 16) }
    if bytes.starts(with: "0o".utf8) { return whole(text.dropFirst(2), radix: 8) }
    var rest = bytes[...]
    if let sign = rest.first, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") {
      rest.removeFirst()
    }
    let wholePart = takeDigits(&rest)
    if rest.isEmpty, wholePart > 0 {
      if let value = Int64(text) { return .integer(value) }
      return Double(text).map(JSONValue.number)
    }
    var fraction = 0
    if rest.first == UInt8(ascii: ".") {
      rest.removeFirst()
      fraction = takeDigits(&rest)
    }
    guard wholePart + fraction > 0 else { return nil }
    if rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") {
      rest.removeFirst()
      if rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") { rest.removeFirst() }
      guard takeDigits(&rest) > 0 else { return nil }
    }
    return rest.isEmpty ? Double(text).map(JSONValue.number) : nil
  }

  private static func whole(_ digits: Substring, radix: Int) -> JSONValue? {
    // `Int64(_:radix:)` would also take a sign here.
    guard digits.first?.isHexDigit == true else { return nil }
    return Int64(digits, radix: radix).map(JSONValue.integer)
  }

  private static func takeDigits(_ rest: inout ArraySlice<UInt8>) -> Int {
    let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
    rest.removeFirst(digits)
    return digits
  }
}
