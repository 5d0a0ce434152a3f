/// Appends the parts of a JSON text.
enum JSONText {
  static func append(_ value: Bool?, to bytes: inout [UInt8]) {
    bytes.append(contentsOf: (value.map { $0 ? "true" : "false" } ?? "null").utf8)
  }

  static func append(integer value: some FixedWidthInteger, to bytes: inout [UInt8]) {
    guard let number = Int64(exactly: value), number != .min else {
      bytes.append(contentsOf: String(value).utf8)
      return
    }
    if number < 0 { bytes.append(UInt8(ascii: "-")) }
    let start = bytes.count
    var rest = number.magnitude
    repeat {
      bytes.append(0x30 + UInt8(truncatingIfNeeded: rest % 10))
      rest /= 10
    } while rest > 0
    bytes[start...].reverse()
  }

  static func append(_ value: String, to bytes: inout [UInt8]) {
    var value = value
    value.withUTF8 { text in
      bytes.append(UInt8(ascii: "\""))
      if text.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
        bytes.append(contentsOf: text)
      } else {
        for byte in text { append(escaped: byte, to: &bytes) }
      }
      bytes.append(UInt8(ascii: "\""))
    }
  }

  private static func append(escaped byte: UInt8, to bytes: inout [UInt8]) {
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
