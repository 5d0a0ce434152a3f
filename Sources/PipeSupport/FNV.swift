/// The hash function FNV-1a. Unlike the hash values of Swift's `Hasher`, these hashes are the same
/// in every process.
package enum FNV {
  /// Returns the 32-bit hash of a text's UTF-8.
  package static func hash(of text: String) -> UInt32 {
    text.utf8.reduce(0x811C_9DC5) { ($0 ^ UInt32($1)) &* 0x0100_0193 }
  }

  /// Returns the 32-bit hash of a text's UTF-8 as eight hexadecimal digits.
  package static func hexadecimalHash(of text: String) -> String {
    let digits = String(hash(of: text), radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }

  /// Returns the 64-bit hash of bytes.
  @inlinable
  package static func hash64(of bytes: UnsafeRawBufferPointer) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
    return hash
  }
}
