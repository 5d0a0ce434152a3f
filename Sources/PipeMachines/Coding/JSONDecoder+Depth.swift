#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

extension JSONDecoder {
  /// The deepest nesting of objects and arrays that is handed to Foundation, which traps on some text that
  /// is nested more than 512 deep and ends there.
  private static let deepest = 500

  /// Decodes text that others wrote.
  package func decode<Value: Decodable>(_ type: Value.Type, checking text: Data) throws -> Value {
    try text.withUnsafeBytes { try Self.checkDepth(of: $0) }
    return try decode(type, from: text)
  }

  /// Throws where text is nested too deep.
  static func checkDepth(of text: UnsafeRawBufferPointer) throws {
    var depth = 0
    var isInString = false
    var isEscaped = false
    for byte in text {
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\""): isInString = true
      case UInt8(ascii: "["), UInt8(ascii: "{"):
        depth += 1
        guard depth <= deepest else {
          throw DecodingError.dataCorrupted(
            DecodingError.Context(
              codingPath: [], debugDescription: "it is nested more than \(deepest) deep"))
        }
      case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
      default: break
      }
    }
  }
}
