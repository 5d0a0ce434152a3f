import PipeSupport

/// A value that is encoded and decoded in place, with the same result as through its `Codable`.
protocol InPlaceValue {
  /// Whether the JSON omits the value, together with its key.
  var isOmitted: Bool { get }
  /// Appends the value's JSON; returns `false` if the value cannot be encoded.
  func append(to bytes: inout [UInt8]) -> Bool
  /// Reads a value; `nil` if the text does not have the form that `append` writes. The caller then
  /// decodes the text in another way.
  init?(_ text: inout InPlaceText)
  /// The value for a missing key; `nil` if the key is required.
  static var missingValue: Self? { get }
  static func sample(_ numbers: inout SplitMix64) -> Self
}

extension InPlaceValue {
  var isOmitted: Bool { false }
  static var missingValue: Self? { nil }
}

/// A JSON text that is read from beginning to end.
struct InPlaceText {
  private let bytes: UnsafeRawBufferPointer
  private var position = 0

  init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  var isAtEnd: Bool { position == bytes.count }

  @inline(__always)
  func begins(with expected: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count - position >= expected.count else { return false }
    for index in expected.indices where bytes[position + index] != expected[index] { return false }
    return true
  }

  /// Skips the given bytes; returns `false` and skips nothing if the text does not continue with
  /// these bytes.
  @inline(__always)
  mutating func skip(_ expected: UnsafeRawBufferPointer) -> Bool {
    guard begins(with: expected) else { return false }
    position += expected.count
    return true
  }

  @inline(__always)
  mutating func skip(_ byte: UInt8) -> Bool {
    guard position < bytes.count, bytes[position] == byte else { return false }
    position += 1
    return true
  }

  mutating func skip(_ word: StaticString) -> Bool {
    let count = word.utf8CodeUnitCount
    guard bytes.count - position >= count else { return false }
    for index in 0..<count where bytes[position + index] != word.utf8Start[index] { return false }
    position += count
    return true
  }

  /// Reads an integer; `nil` if the text does not continue with an integer that `type` can
  /// represent.
  @inline(__always)
  mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
    let isNegative = skip(UInt8(ascii: "-"))
    let start = position
    var number: UInt64 = 0
    while position < bytes.count {
      let digit = bytes[position] &- 0x30
      guard digit < 10 else { break }
      if position - start < 19 {
        // Nineteen digits cannot overflow a `UInt64`.
        number = number &* 10 &+ UInt64(digit)
      } else {
        let (tenfold, isTooLarge) = number.multipliedReportingOverflow(by: 10)
        let (sum, isStillTooLarge) = tenfold.addingReportingOverflow(UInt64(digit))
        guard !isTooLarge, !isStillTooLarge else { return nil }
        number = sum
      }
      position += 1
    }
    // Rejects a number without digits, or with a leading zero.
    guard position > start, bytes[start] != 0x30 || position == start + 1 else { return nil }
    guard isNegative else { return Value(exactly: number) }
    return number <= 1 << 63 ? Value(exactly: 0 &- Int64(bitPattern: number)) : nil
  }

  /// Reads the text of a number in JSON form; `nil` if the text does not continue with a number.
  mutating func number() -> String? {
    var tokens = JSONTokens()
    let start = position
    while position < bytes.count, Self.isNumberCharacter(bytes[position]) { position += 1 }
    let text = UnsafeRawBufferPointer(rebasing: bytes[start..<position])
    guard tokens.read(text), tokens.list[0].kind == .number else { return nil }
    return String(decoding: text, as: UTF8.self)
  }

  private static func isNumberCharacter(_ byte: UInt8) -> Bool {
    byte &- 0x30 < 10 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "+")
      || byte == UInt8(ascii: ".") || byte | 0x20 == UInt8(ascii: "e")
  }

  /// Reads a string; `nil` if the text does not continue with a string, or if the string has
  /// escapes.
  mutating func string() -> String? {
    guard skip(UInt8(ascii: "\"")) else { return nil }
    let end = JSONText.plainPrefix(of: bytes, from: position)
    guard end < bytes.count, bytes[end] == UInt8(ascii: "\"") else { return nil }
    let text = UnsafeRawBufferPointer(rebasing: bytes[position..<end])
    position = end + 1
    return JSONText.string(of: text)
  }
}

extension FixedWidthInteger where Self: InPlaceValue {
  func append(to bytes: inout [UInt8]) -> Bool {
    JSONText.append(integer: self, to: &bytes)
    return true
  }

  init?(_ text: inout InPlaceText) {
    guard let value = text.integer(Self.self) else { return nil }
    self = value
  }

  static func sample(_ numbers: inout SplitMix64) -> Self {
    // Generates small numbers as well as large numbers.
    Self(truncatingIfNeeded: numbers.next() >> (numbers.next() % 64))
  }
}

extension Int: InPlaceValue {}
extension Int8: InPlaceValue {}
extension Int16: InPlaceValue {}
extension Int32: InPlaceValue {}
extension Int64: InPlaceValue {}
extension UInt: InPlaceValue {}
extension UInt8: InPlaceValue {}
extension UInt16: InPlaceValue {}
extension UInt32: InPlaceValue {}
extension UInt64: InPlaceValue {}

extension BinaryFloatingPoint where Self: InPlaceValue & LosslessStringConvertible {
  func append(to bytes: inout [UInt8]) -> Bool { JSONText.append(number: self, to: &bytes) }

  init?(_ text: inout InPlaceText) {
    guard let number = text.number(), let value = Self(number), value.isFinite else { return nil }
    self = value
  }

  static func sample(_ numbers: inout SplitMix64) -> Self {
    Self(Int32(truncatingIfNeeded: numbers.next())) / 1024
  }
}

extension Double: InPlaceValue {}
extension Float: InPlaceValue {}

extension Bool: InPlaceValue {
  func append(to bytes: inout [UInt8]) -> Bool {
    JSONText.append(self, to: &bytes)
    return true
  }

  init?(_ text: inout InPlaceText) {
    if text.skip("true") {
      self = true
    } else if text.skip("false") {
      self = false
    } else {
      return nil
    }
  }

  static func sample(_ numbers: inout SplitMix64) -> Bool { numbers.next() & 1 == 1 }
}

extension String: InPlaceValue {
  func append(to bytes: inout [UInt8]) -> Bool {
    JSONText.append(self, to: &bytes)
    return true
  }

  init?(_ text: inout InPlaceText) {
    guard let value = text.string() else { return nil }
    self = value
  }

  static func sample(_ numbers: inout SplitMix64) -> String {
    let characters = ["a", "Z", "0", " ", "/", "é", "😀", "{", ",", "'"]
    return (0..<numbers.next() % 40).map { _ in characters[Int(numbers.next() % 10)] }.joined()
  }
}

extension Optional: InPlaceValue where Wrapped: InPlaceValue {
  var isOmitted: Bool { self == nil }
  static var missingValue: Wrapped?? { .some(nil) }

  func append(to bytes: inout [UInt8]) -> Bool { self?.append(to: &bytes) ?? false }

  init?(_ text: inout InPlaceText) {
    if text.skip("null") {
      self = .none
    } else {
      guard let value = Wrapped(&text) else { return nil }
      self = value
    }
  }

  static func sample(_ numbers: inout SplitMix64) -> Wrapped? {
    numbers.next() % 3 == 0 ? nil : Wrapped.sample(&numbers)
  }
}
