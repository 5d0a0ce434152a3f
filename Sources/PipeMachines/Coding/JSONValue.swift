#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A JSON value. The parameters and constants of a topology, payload templates and descriptions are
/// JSON values.
public enum JSONValue: Hashable, Sendable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])
}

extension JSONValue {
  /// Parses UTF-8 JSON text. Throws `DecodingError` if the text is not JSON.
  public init(parsing text: some Sequence<UInt8>) throws {
    let read = try text.withContiguousStorageIfAvailable { bytes in
      try JSONValue(parsing: UnsafeRawBufferPointer(bytes))
    }
    self = try read ?? Array(text).withUnsafeBytes { try JSONValue(parsing: $0) }
  }

  private init(parsing bytes: UnsafeRawBufferPointer) throws {
    // This parser is several times faster than Foundation, which parses the remaining texts and
    // describes the errors.
    if let value = JSONTokens.value(of: bytes) {
      self = value
    } else {
      self = try JSONDecoder().decode(JSONValue.self, checking: Data(bytes))
    }
  }

  /// Encodes a value as JSON.
  public init(encoding value: some Encodable) throws {
    try self.init(parsing: JSONRecord.encode(value))
  }

  /// Decodes a value of the given type from this JSON value.
  public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
    try JSONRecord.decode(type, from: bytes)
  }

  /// The value as compact UTF-8 JSON with sorted keys, so that equal values have equal bytes.
  public var bytes: [UInt8] {
    var out: [UInt8] = []
    write(into: &out)
    return out
  }

  /// Compact JSON text with sorted keys.
  public var text: String { String(decoding: bytes, as: UTF8.self) }

  /// Returns a count as a JSON integer. A count that is too large becomes the largest `Int64`.
  package static func count(_ count: UInt64) -> JSONValue { .integer(Int64(clamping: count)) }

  /// Returns a JSON array of strings.
  package static func texts(_ texts: some Sequence<String>) -> JSONValue {
    .array(texts.map { .string($0) })
  }

  /// Returns a JSON string, or `null`.
  package static func optional(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }

  /// The value of a member, if this value is an object with that member; otherwise `nil`.
  public subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { members[key] } else { nil }
  }

  /// The string, if this value is a string; otherwise `nil`.
  public var string: String? {
    if case .string(let value) = self { value } else { nil }
  }

  /// The integer, if this value is an integer; otherwise `nil`.
  public var integer: Int64? {
    if case .integer(let value) = self { value } else { nil }
  }

  func write(into out: inout [UInt8]) {
    switch self {
    case .null: JSONText.append(nil, to: &out)
    case .bool(let value): JSONText.append(value, to: &out)
    case .integer(let value): JSONText.append(integer: value, to: &out)
    case .number(let value):
      // JSON can represent neither infinities nor NaN.
      out.append(contentsOf: (value.isFinite ? value.description : "null").utf8)
    case .string(let value): JSONText.append(value, to: &out)
    case .array(let values):
      out.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        value.write(into: &out)
      }
      out.append(UInt8(ascii: "]"))
    case .object(let members):
      out.append(UInt8(ascii: "{"))
      for (index, key) in members.keys.sorted().enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        JSONText.append(key, to: &out)
        out.append(UInt8(ascii: ":"))
        members[key]!.write(into: &out)
      }
      out.append(UInt8(ascii: "}"))
    }
  }
}

extension JSONValue: Codable {
  /// Decodes any JSON.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      // A decimal number may equal an integer. Such a number is stored as an integer, because its
      // JSON would be decoded as an integer, too.
      self = Int64(exactly: value).map { .integer($0) } ?? .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([JSONValue].self) {
      self = .array(value)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  /// Encodes this JSON value.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  /// Creates a string.
  public init(stringLiteral value: String) { self = .string(value) }
  /// Creates an integer.
  public init(integerLiteral value: Int64) { self = .integer(value) }
  /// Creates a Boolean.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// Creates an array.
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  /// Creates an object. If a key occurs twice, the last value is used.
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(Dictionary(elements) { _, last in last })
  }
}
