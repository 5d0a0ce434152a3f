/// Finds the members of an encoded case without decoding them.
///
/// The text is the output of an encoder. Of anything else it finds some members or none, and stays
/// within the bytes.
struct JSONScanner {
  private let bytes: [UInt8]
  private var index = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Calls with each key's and value's range of `{"case":{"key":value,…}}`.
  mutating func caseMembers(_ visit: (_ key: Range<Int>, _ value: Range<Int>) -> Void) {
    guard take("{"), string() != nil, take(":"), take("{") else { return }
    repeat {
      guard let key = string(), take(":"), let value = value() else { return }
      visit(key, value)
    } while take(",")
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    skipSpace()
    guard index < bytes.count, bytes[index] == UInt8(ascii: character) else { return false }
    index += 1
    return true
  }

  private mutating func skipSpace() {
    while index < bytes.count, bytes[index] <= 0x20 { index += 1 }
  }

  /// The range between the quotes of a string.
  private mutating func string() -> Range<Int>? {
    guard take("\"") else { return nil }
    let start = index
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "\""):
        index += 1
        return start..<(index - 1)
      case UInt8(ascii: "\\"): index += 2
      default: index += 1
      }
    }
    return nil
  }

  private mutating func value() -> Range<Int>? {
    skipSpace()
    let start = index
    var depth = 0
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "\""):
        guard string() != nil else { return nil }
        continue
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        if depth == 0 { return trimmed(start) }
        depth -= 1
      case UInt8(ascii: ","):
        if depth == 0 { return trimmed(start) }
      default: break
      }
      index += 1
    }
    return nil
  }

  private func trimmed(_ start: Int) -> Range<Int>? {
    var end = index
    while end > start, bytes[end - 1] <= 0x20 { end -= 1 }
    return end > start ? start..<end : nil
  }
}
