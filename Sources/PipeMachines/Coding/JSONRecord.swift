#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Records of processes as JSON: what nodes, orchestrators and clients say to each other beside events.
///
/// They are read and written as events are. Foundation has what is left over, and words the errors: a node
/// that never meets it starts sooner, and holds less memory.
package enum JSONRecord {
  /// The JSON of a record.
  package static func encode(_ record: some Encodable) throws -> [UInt8] {
    var text: [UInt8] = []
    let writer = EventWriter()
    defer { writer.close() }
    do { try writer.write(record, into: &text) } catch {
      text = Array(try JSONEncoder().encode(record))
    }
    return text
  }

  /// Reads a record that others wrote.
  /// - Throws: `DecodingError` where the text is not JSON of this type.
  package static func decode<Record: Decodable>(
    _ type: Record.Type, from text: UnsafeRawBufferPointer
  ) throws -> Record {
    let reader = EventReader()
    defer { reader.close() }
    // A type that goes on where it finds no text must not take a text with escapes for none.
    if !text.contains(UInt8(ascii: "\\")), let record = try? reader.read(type, from: text) {
      return record
    }
    return try JSONDecoder().decode(type, checking: Data(text))
  }

  /// Reads a record that others wrote.
  /// - Throws: `DecodingError` where the text is not JSON of this type.
  package static func decode<Record: Decodable>(
    _ type: Record.Type, from text: [UInt8]
  ) throws -> Record {
    try text.withUnsafeBytes { try decode(type, from: $0) }
  }
}

extension JSONDecoder {
  /// Decodes text that others wrote.
  package func decode<Value: Decodable>(_ type: Value.Type, checking text: Data) throws -> Value {
    try text.withUnsafeBytes { try Self.checkDepth(of: $0) }
    return try decode(type, from: text)
  }

  /// Throws where text is nested too deep.
  static func checkDepth(of text: UnsafeRawBufferPointer) throws {
    guard JSONTokens.depth(of: text, upTo: JSONTokens.deepest) > JSONTokens.deepest else { return }
    throw DecodingError.dataCorrupted(
      DecodingError.Context(
        codingPath: [], debugDescription: "it is nested more than \(JSONTokens.deepest) deep"))
  }
}
