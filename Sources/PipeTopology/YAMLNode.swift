import PipeMachines
import PipeWire

/// A node of a YAML document: a scalar, a list or a mapping, with its location.
package struct YAMLNode: Sendable {
  /// The content of a node. A mapping has its entries in the order of the file, including duplicate
  /// keys.
  package enum Content: Sendable {
    case scalar(YAMLScalar)
    case sequence([YAMLNode])
    case mapping([YAMLEntry])
  }

  /// The content of the node.
  package var content: Content
  /// The location where the node starts. For an alias, this is the location of its anchor.
  package var position: TextPosition

  /// The scalar; `nil` for a list or a mapping.
  var scalar: YAMLScalar? {
    if case .scalar(let scalar) = content { scalar } else { nil }
  }

  /// A short description for a message, such as `60` or `a list`.
  package var summary: String {
    switch content {
    case .scalar(let scalar): scalar.summary + (scalar.writtenText.map { " from '\($0)'" } ?? "")
    case .sequence: "a list"
    case .mapping: "a mapping"
    }
  }

  /// Whether the node has a variable that could not be replaced. The error was reported before.
  var isBroken: Bool { scalar?.isBroken ?? false }
}

/// An entry of a mapping: a key and its value.
package struct YAMLEntry: Sendable {
  package var key: String
  /// Whether the key is written without quotes.
  package var isKeyPlain: Bool
  package var keyPosition: TextPosition
  package var value: YAMLNode
}

/// A scalar: its text, and whether the text is written without quotes.
package struct YAMLScalar: Sendable {
  package var text: String
  package var isPlain: Bool
  /// The text as written in the file, if it contained variables; otherwise `nil`.
  var writtenText: String?
  /// Whether the text has a variable that could not be replaced.
  var isBroken = false

  package init(text: String, isPlain: Bool) {
    self.text = text
    self.isPlain = isPlain
  }

  /// The value according to the core schema of YAML 1.2: `yes` and `on` are not Booleans, and `010`
  /// is not octal.
  package var value: JSONValue { isPlain ? resolvedValue : .string(text) }

  /// The value, for a key that expects a number or a Boolean. If the text came from a variable, it
  /// is read as a number or a Boolean even in quotes.
  var typedValue: JSONValue { writtenText == nil ? value : resolvedValue }

  /// Whether the scalar is an integer that is too large for an `Int64`.
  var isIntegerOutOfRange: Bool {
    let digits = text.first == "-" || text.first == "+" ? text.dropFirst() : text[...]
    guard isPlain, !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      return false
    }
    return value.integer == nil
  }

  fileprivate var summary: String {
    if text.isEmpty { return isPlain ? "nothing" : "''" }
    if text.count > 40 { return "'\(text.prefix(40))…'" }
    return value.string == nil ? text : "'\(text)'"
  }

  private var resolvedValue: JSONValue {
    switch text {
    case "", "~", "null", "Null", "NULL": return .null
    case "true", "True", "TRUE": return .bool(true)
    case "false", "False", "FALSE": return .bool(false)
    case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF": return .number(.infinity)
    case "-.inf", "-.Inf", "-.INF": return .number(-.infinity)
    case ".nan", ".NaN", ".NAN": return .number(.nan)
    default: return Self.parseNumber(Array(text.utf8)) ?? .string(text)
    }
  }

  private static func parseNumber(_ bytes: [UInt8]) -> JSONValue? {
    let text = String(decoding: bytes, as: UTF8.self)
    if bytes.starts(with: "0x".utf8) { return parseInteger(text.dropFirst(2), radix: 16) }
    if bytes.starts(with: "0o".utf8) { return parseInteger(text.dropFirst(2), radix: 8) }
    var rest = bytes[...]
    if let sign = rest.first, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") {
      rest.removeFirst()
    }
    let integerDigitCount = consumeDigits(&rest)
    if rest.isEmpty, integerDigitCount > 0 {
      if let value = Int64(text) { return .integer(value) }
      return Double(text).map(JSONValue.number)
    }
    var fraction = 0
    if rest.first == UInt8(ascii: ".") {
      rest.removeFirst()
      fraction = consumeDigits(&rest)
    }
    guard integerDigitCount + fraction > 0 else { return nil }
    if rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") {
      rest.removeFirst()
      if rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") { rest.removeFirst() }
      guard consumeDigits(&rest) > 0 else { return nil }
    }
    return rest.isEmpty ? Double(text).map(JSONValue.number) : nil
  }

  private static func parseInteger(_ digits: Substring, radix: Int) -> JSONValue? {
    // Checks the digits first, since `Int64(_:radix:)` would also accept a sign.
    guard digits.first?.isHexDigit == true else { return nil }
    return Int64(digits, radix: radix).map(JSONValue.integer)
  }

  private static func consumeDigits(_ rest: inout ArraySlice<UInt8>) -> Int {
    let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
    rest.removeFirst(digits)
    return digits
  }
}
