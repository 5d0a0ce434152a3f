import CZMQ
import Glibc

/// A CURVE key pair. Only libzmq and a ``KeyFile`` get the secret key.
package final class CurveKeyPair: Sendable, CustomStringConvertible {
  package let publicKey: PublicKey
  private let secret: SecretText

  private init(_ publicKey: PublicKey, _ secret: SecretText) {
    self.publicKey = publicKey
    self.secret = secret
  }

  /// Creates a new key pair.
  package static func make() throws(TransportError) -> CurveKeyPair {
    let secret = SecretText()
    guard let key = publicKey({ zmq_curve_keypair($0, secret.buffer.baseAddress) }) else {
      throw .lastError("zmq_curve_keypair")
    }
    return CurveKeyPair(key, secret)
  }

  /// Creates a key pair from a secret key, and derives the public key.
  /// - Returns: `nil` if the text is not a key.
  package convenience init?(secret text: some Collection<UInt8>) {
    guard text.count == PublicKey.characterCount, !text.contains(0) else { return nil }
    let secret = SecretText()
    for (index, byte) in text.enumerated() { secret.buffer[index] = CChar(bitPattern: byte) }
    guard let key = Self.publicKey({ zmq_curve_public($0, secret.buffer.baseAddress) }) else {
      return nil
    }
    self.init(key, secret)
  }

  /// Returns the public key that a libzmq function writes.
  private static func publicKey(_ write: (UnsafeMutablePointer<CChar>) -> Int32) -> PublicKey? {
    var text = [CChar](repeating: 0, count: PublicKey.characterCount + 1)
    guard text.withUnsafeMutableBufferPointer({ write($0.baseAddress!) }) == 0 else { return nil }
    return PublicKey(String(decoding: text.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self))
  }

  /// Calls the closure with the secret key: 40 characters of Z85.
  func withSecret<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    let bytes = UnsafeRawBufferPointer(secret.buffer)
    return try body(UnsafeRawBufferPointer(rebasing: bytes.dropLast()))
  }

  package var description: String { "the key pair of '\(publicKey)'" }
}

/// A secret key and a zero byte, wiped when the last reference is released.
private final class SecretText: Sendable {
  // The buffer is written only before other code gets a reference to this object.
  nonisolated(unsafe) let buffer: UnsafeMutableBufferPointer<CChar>

  init() {
    buffer = .allocate(capacity: PublicKey.characterCount + 1)
    buffer.initialize(repeating: 0)
  }

  deinit {
    explicit_bzero(buffer.baseAddress!, buffer.count)
    buffer.deallocate()
  }
}

/// The public half of a CURVE key pair, which identifies the owner of the secret half.
package struct PublicKey: Hashable, Sendable, CustomStringConvertible {
  /// The key as 40 characters of Z85. Source: ZeroMQ RFC 32.
  package let text: String

  static let characterCount = 40
  static let byteCount = 32

  /// - Returns: `nil` if the text is not a key.
  package init?(_ text: String) {
    guard text.utf8.count == Self.characterCount else { return nil }
    var bytes = [UInt8](repeating: 0, count: Self.byteCount)
    guard zmq_z85_decode(&bytes, text) != nil else { return nil }
    self.text = text
  }

  /// Creates a key from its bytes in a handshake.
  /// - Returns: `nil` unless there are 32 bytes.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    var text = [CChar](repeating: 0, count: Self.characterCount + 1)
    guard zmq_z85_encode(&text, Array(bytes), Self.byteCount) != nil else { return nil }
    self.text = String(decoding: text.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  package var description: String { text }
}
