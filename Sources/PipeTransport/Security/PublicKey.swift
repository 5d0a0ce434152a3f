import CZMQ

/// The public half of a CURVE key pair, which names who has the other half.
package struct PublicKey: Hashable, Sendable, CustomStringConvertible {
  /// 40 characters of Z85. Source: ZeroMQ RFC 32.
  package let text: String

  static let characterCount = 40
  static let byteCount = 32

  /// - Returns: `nil` where the text is no key.
  package init?(_ text: String) {
    guard text.utf8.count == Self.characterCount else { return nil }
    var bytes = [UInt8](repeating: 0, count: Self.byteCount)
    guard zmq_z85_decode(&bytes, text) != nil else { return nil }
    self.text = text
  }

  /// Reads it as a handshake has it.
  /// - Returns: `nil` where these are not 32 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    var text = [CChar](repeating: 0, count: Self.characterCount + 1)
    guard zmq_z85_encode(&text, Array(bytes), Self.byteCount) != nil else { return nil }
    self.text = String(decoding: text.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  package var description: String { text }
}
