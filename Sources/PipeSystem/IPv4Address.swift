/// An IPv4 address, written in numbers.
package struct IPv4Address: Hashable, Sendable {
  /// Its four bytes, the first of them the highest.
  package let number: UInt32

  package init(number: UInt32) {
    self.number = number
  }

  /// Reads four numbers from 0 to 255 without leading zeros: `127.0.0.1`.
  package init?(_ text: String) {
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 4 else { return nil }
    var number: UInt32 = 0
    for part in parts {
      guard let byte = Self.byte(part) else { return nil }
      number = number << 8 | UInt32(byte)
    }
    self.number = number
  }

  private static func byte(_ digits: Substring.UTF8View) -> UInt8? {
    guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else {
      return nil
    }
    guard digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) else { return nil }
    return UInt8(String(Substring(digits)))
  }
}

extension IPv4Address: CustomStringConvertible {
  package var description: String {
    [24, 16, 8, 0].map { String(number >> UInt32($0) & 0xFF) }.joined(separator: ".")
  }
}
