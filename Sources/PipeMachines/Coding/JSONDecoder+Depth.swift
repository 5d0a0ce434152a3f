#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

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
