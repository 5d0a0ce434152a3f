/// A buffer in which a JSON text is written. The buffer is the only owner of its memory.
///
/// An array would check, for each byte that is appended, whether its memory is shared. That cost is
/// noticeable for large states.
struct TextBuffer: ~Copyable {
  private var start: UnsafeMutablePointer<UInt8>
  private var capacity: Int
  private(set) var count = 0

  /// The maximum capacity that the buffer retains for the next text. Unit: bytes.
  private static let keptCapacity = 4 << 20

  init() {
    capacity = 256
    start = .allocate(capacity: capacity)
  }

  deinit { start.deallocate() }

  /// The text so far. The pointer is valid until the text changes.
  var bytes: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: start, count: count) }

  mutating func removeAll() {
    count = 0
    if capacity > Self.keptCapacity { grow(to: 256) }
  }

  @inline(__always)
  private mutating func reserve(_ additionalCount: Int) {
    if capacity - count < additionalCount { grow(to: max(2 * capacity, count + additionalCount)) }
  }

  @inline(never)
  private mutating func grow(to newCapacity: Int) {
    let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: newCapacity)
    larger.update(from: start, count: count)
    start.deallocate()
    (start, capacity) = (larger, newCapacity)
  }

  @inline(__always)
  mutating func append(_ byte: UInt8) {
    reserve(1)
    start[count] = byte
    count += 1
  }

  @inline(__always)
  mutating func append(_ word: StaticString) {
    reserve(word.utf8CodeUnitCount)
    (start + count).update(from: word.utf8Start, count: word.utf8CodeUnitCount)
    count += word.utf8CodeUnitCount
  }

  mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
    guard let first = bytes.baseAddress else { return }
    reserve(bytes.count)
    (start + count).update(from: first, count: bytes.count)
    count += bytes.count
  }

  /// Appends the text that `write` writes into an array; appends nothing if `write` returns
  /// `false`.
  mutating func append(writing write: (inout [UInt8]) -> Bool) -> Bool {
    var text: [UInt8] = []
    guard write(&text) else { return false }
    text.withUnsafeBufferPointer { append($0) }
    return true
  }

  /// Appends a string with its quotes.
  mutating func append(string value: String) {
    var value = value
    value.withUTF8 { append(string: $0) }
  }

  @inline(__always)
  private mutating func append(string text: UnsafeBufferPointer<UInt8>) {
    reserve(text.count + 2)
    start[count] = UInt8(ascii: "\"")
    count += 1
    let plainCount = JSONText.plainPrefix(of: UnsafeRawBufferPointer(text), from: 0)
    if let first = text.baseAddress { (start + count).update(from: first, count: plainCount) }
    count += plainCount
    if plainCount < text.count { append(escaping: text, from: plainCount) }
    append(UInt8(ascii: "\""))
  }

  @inline(never)
  private mutating func append(escaping text: UnsafeBufferPointer<UInt8>, from first: Int) {
    var escaped: [UInt8] = []
    for byte in text[first...] { JSONText.append(escaped: byte, to: &escaped) }
    escaped.withUnsafeBufferPointer { append($0) }
  }

  mutating func append(integer value: some FixedWidthInteger) {
    guard let number = Int64(exactly: value), number != .min else {
      var text = String(value)
      return text.withUTF8 { append($0) }
    }
    reserve(20)
    if number < 0 { append(UInt8(ascii: "-")) }
    let magnitude = number.magnitude
    var digitCount = 1
    var bound: UInt64 = 10
    while magnitude >= bound {
      digitCount += 1
      if digitCount == 19 { break }
      bound *= 10
    }
    var rest = magnitude
    var position = count + digitCount
    count = position
    repeat {
      position -= 1
      start[position] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
      rest /= 10
    } while rest > 0
  }
}
