/// A Swift type, derived from its name. JSON values can be checked against the type.
package enum SwiftType: Equatable {
  case bool, string
  case integer(ClosedRange<Double>)
  case floating
  indirect case array(SwiftType)
  indirect case dictionary(SwiftType)
  indirect case optional(SwiftType)
  /// A type whose values only its own decoder can check.
  case unknown

  package init(_ name: String) {
    let name = name.hasPrefix("Swift.") ? String(name.dropFirst(6)) : name
    if let inner = Self.argument(of: name, "Optional<", ">") ?? Self.argument(of: name, "", "?") {
      self = .optional(SwiftType(inner))
    } else if let inner = Self.argument(of: name, "Array<", ">") {
      self = .array(SwiftType(inner))
    } else if let inner = Self.argument(of: name, "Dictionary<String, ", ">")
      ?? Self.argument(of: name, "[String : ", "]") ?? Self.argument(of: name, "[String: ", "]")
    {
      self = .dictionary(SwiftType(inner))
    } else if let inner = Self.argument(of: name, "[", "]"), !inner.contains(":") {
      self = .array(SwiftType(inner))
    } else {
      self = Self.scalar(name)
    }
  }

  private static func scalar(_ name: String) -> SwiftType {
    switch name {
    case "Bool": .bool
    case "String", "Character": .string
    case "Double", "Float": .floating
    case "Int", "Int64": .integer(-0x1p63...0x1p63)
    case "UInt", "UInt64": .integer(0...0x1p64)
    case "Int8": .integer(-128...127)
    case "Int16": .integer(-32768...32767)
    case "Int32": .integer(-0x1p31...(0x1p31 - 1))
    case "UInt8": .integer(0...255)
    case "UInt16": .integer(0...65535)
    case "UInt32": .integer(0...(0x1p32 - 1))
    default: .unknown
    }
  }

  private static func argument(of name: String, _ head: String, _ tail: String) -> String? {
    guard name.hasPrefix(head), name.hasSuffix(tail), name.count > head.count + tail.count else {
      return nil
    }
    return String(name.dropFirst(head.count).dropLast(tail.count))
  }

  /// Returns whether a decoder of this type accepts the value. The type `unknown` accepts all
  /// values.
  package func canDecode(_ value: JSONValue) -> Bool {
    switch (self, value) {
    case (.unknown, _), (.bool, .bool), (.string, .string), (.floating, .integer),
      (.floating, .number), (.optional, .null):
      true
    case (.integer(let range), .integer(let value)): range.contains(Double(value))
    case (.integer(let range), .number(let value)):
      value.rounded() == value && range.contains(value)
    case (.array(let inner), .array(let values)): values.allSatisfy { inner.canDecode($0) }
    case (.dictionary(let inner), .object(let members)):
      members.values.allSatisfy { inner.canDecode($0) }
    case (.optional(let inner), _): inner.canDecode(value)
    default: false
    }
  }

  /// Returns the text that describes the accepted values in a message: `a value of type UInt8, from
  /// 0 to 255`.
  package func constraint(of name: String) -> String {
    guard case .integer(let range) = self, range.upperBound < 0x1p63 else {
      return "a value of type \(name)"
    }
    return "a value of type \(name), from \(Int(range.lowerBound)) to \(Int(range.upperBound))"
  }

  /// Returns whether a value of type `from` is valid for type `to`: whether both types are the
  /// same, or `to` is an optional of `from`.
  package static func assignable(_ from: String, to: String) -> Bool {
    if from == to { return true }
    let (source, target) = (SwiftType(from), SwiftType(to))
    if source == .unknown || target == .unknown {
      return to == "Optional<\(from)>" || to == "\(from)?"
    }
    if case .optional(let inner) = target, inner == source { return true }
    return source == target && normalized(from) == normalized(to)
  }

  /// Returns the name with the syntax of optionals, arrays and dictionaries removed.
  private static func normalized(_ name: String) -> String {
    switch SwiftType(name) {
    case .optional, .array, .dictionary:
      name.replacing("?", with: "").replacing("Optional<", with: "").replacing("Array<", with: "")
        .replacing("Dictionary<", with: "").filter { !"[]<> :,".contains($0) }
    default: name
    }
  }
}
