/// Functions that append the parts of a JSON text.
enum JSONText {
  static func append(_ value: Bool?, to bytes: inout [UInt8]) {
    bytes.append(contentsOf: (value.map { $0 ? "true" : "false" } ?? "null").utf8)
  }

  static func append(integer value: some FixedWidthInteger, to bytes: inout [UInt8]) {
    guard let number = Int64(exactly: value), number != .min else {
      bytes.append(contentsOf: String(value).utf8)
      return
    }
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
      var position = digits.count
      var rest = number.magnitude
      repeat {
        position -= 1
        digits[position] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
        rest /= 10
      } while rest > 0
      if number < 0 {
        position -= 1
        digits[position] = UInt8(ascii: "-")
      }
      bytes.append(contentsOf: UnsafeBufferPointer(rebasing: digits[position...]))
    }
  }

  /// Appends a number; returns `false` if JSON cannot represent it.
  static func append(
    number value: some BinaryFloatingPoint & LosslessStringConvertible, to bytes: inout [UInt8]
  ) -> Bool {
    guard value.isFinite else { return false }
    let text = value.description
    bytes.append(contentsOf: (text.hasSuffix(".0") ? text.dropLast(2) : text[...]).utf8)
    return true
  }

  static func append(_ value: String, to bytes: inout [UInt8]) {
    var value = value
    value.withUTF8 { text in
      bytes.append(UInt8(ascii: "\""))
      let text = UnsafeRawBufferPointer(text)
      if plainPrefix(of: text, from: 0) == text.count {
        bytes.append(contentsOf: text)
      } else {
        for byte in text { append(escaped: byte, to: &bytes) }
      }
      bytes.append(UInt8(ascii: "\""))
    }
  }

  /// Returns the index of the first byte at or after `start` that must be escaped in a string. Such
  /// a byte is a quote, a backslash or a control character. Returns the number of bytes in `text`
  /// if there is no such byte.
  static func plainPrefix(of text: UnsafeRawBufferPointer, from start: Int) -> Int {
    var position = start
    // Tests eight bytes at a time. Each test sets the highest bit of a byte that must be escaped.
    while position + 8 <= text.count {
      let word = text.loadUnaligned(fromByteOffset: position, as: UInt64.self)
      let quotes = word ^ (everyByte &* 0x22)
      let backslashes = word ^ (everyByte &* 0x5C)
      let found =
        ((word &- everyByte &* 0x20) & ~word) | ((quotes &- everyByte) & ~quotes)
        | ((backslashes &- everyByte) & ~backslashes)
      if found & (everyByte &* 0x80) != 0 { break }
      position += 8
    }
    while position < text.count, text[position] >= 0x20, text[position] != UInt8(ascii: "\""),
      text[position] != UInt8(ascii: "\\")
    { position += 1 }
    return position
  }

  /// Returns the string of these bytes; `nil` if they are not UTF-8.
  static func string(of text: UnsafeRawBufferPointer) -> String? {
    isASCII(text) ? String(decoding: text, as: UTF8.self) : String(validating: text, as: UTF8.self)
  }

  private static func isASCII(_ text: UnsafeRawBufferPointer) -> Bool {
    var all: UInt64 = 0
    var position = 0
    while position + 8 <= text.count {
      all |= text.loadUnaligned(fromByteOffset: position, as: UInt64.self)
      position += 8
    }
    while position < text.count {
      all |= UInt64(text[position])
      position += 1
    }
    return all & (everyByte &* 0x80) == 0
  }

  private static var everyByte: UInt64 { 0x0101_0101_0101_0101 }

  static func append(escaped byte: UInt8, to bytes: inout [UInt8]) {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      bytes.append(UInt8(ascii: "\\"))
      bytes.append(byte)
    case 0x0A: bytes.append(contentsOf: #"\n"#.utf8)
    case 0x0D: bytes.append(contentsOf: #"\r"#.utf8)
    case 0x09: bytes.append(contentsOf: #"\t"#.utf8)
    case 0..<0x20:
      bytes.append(contentsOf: #"\u00"#.utf8)
      for digit in [byte >> 4, byte & 15] { bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
    default: bytes.append(byte)
    }
  }
}
