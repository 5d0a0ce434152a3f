#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Encodes and decodes the records that nodes, orchestrators and clients exchange, except for
/// events.
///
/// Uses ``EventWriter`` and ``EventReader``. Foundation handles values that these types do not
/// support, and describes the errors. A node that never uses Foundation starts sooner and uses less
/// memory.
package enum JSONRecord {
  /// Returns the JSON of a record.
  package static func encode(_ record: some Encodable) throws -> [UInt8] {
    var text: [UInt8] = []
    let writer = EventWriter()
    defer { writer.close() }
    do { try writer.write(record, into: &text) } catch {
      text = Array(try JSONEncoder().encode(record))
    }
    return text
  }

  /// Decodes a record that another process wrote.
  /// - Throws: `DecodingError` if the text is not JSON of this type.
  package static func decode<Record: Decodable>(
    _ type: Record.Type, from text: UnsafeRawBufferPointer
  ) throws -> Record {
    let reader = EventReader()
    defer { reader.close() }
    // The reader throws when it reads a string with escapes. A type whose `init(from:)` ignores the
    // errors of an optional string would decode such a string as `nil`. So Foundation decodes every
    // text with escapes.
    if !text.contains(UInt8(ascii: "\\")), let record = try? reader.read(type, from: text) {
      return record
    }
    return try JSONDecoder().decode(type, checking: Data(text))
  }

  /// Decodes a record that another process wrote.
  /// - Throws: `DecodingError` if the text is not JSON of this type.
  package static func decode<Record: Decodable>(
    _ type: Record.Type, from text: [UInt8]
  ) throws -> Record {
    try text.withUnsafeBytes { try decode(type, from: $0) }
  }
}

extension JSONDecoder {
  /// Decodes text that another process wrote. Throws if the text is nested too deeply.
  package func decode<Value: Decodable>(_ type: Value.Type, checking text: Data) throws -> Value {
    try text.withUnsafeBytes { try Self.checkDepth(of: $0) }
    return try decode(type, from: text)
  }

  /// Throws if the text is nested too deeply.
  static func checkDepth(of text: UnsafeRawBufferPointer) throws {
    guard JSONTokens.depth(of: text, upTo: JSONTokens.maximumDepth) > JSONTokens.maximumDepth else {
      return
    }
    throw DecodingError.dataCorrupted(
      DecodingError.Context(
        codingPath: [],
        debugDescription: "the JSON is nested more than \(JSONTokens.maximumDepth) levels deep"))
  }
}
