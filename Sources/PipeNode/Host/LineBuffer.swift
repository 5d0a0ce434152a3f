import Glibc

/// A buffer for lines that are written later. Each step of a recorded run appends its parts, so
/// appending allocates memory only when the buffer grows.
///
/// After ``reserve()``, and after each part of variable size, the buffer has capacity for
/// ``fixedByteCount`` bytes of fixed-size parts. So fixed-size parts are appended without a check.
final class LineBuffer {
  // Run-time exclusivity checks would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var base: UnsafeMutablePointer<UInt8>
  @exclusivity(unchecked)
  private var capacity = 1 << 16
  /// The number of bytes in the buffer.
  @exclusivity(unchecked)
  private(set) var count = 0

  /// The capacity for parts of fixed size. Unit: bytes.
  private static var fixedByteCount: Int { 512 }

  init() { base = .allocate(capacity: capacity) }
  deinit { base.deallocate() }

  var text: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

  func removeAll() { count = 0 }

  /// Reserves capacity for parts of fixed size. Call this at the beginning of each line.
  @inline(__always)
  func reserve(_ byteCount: Int = 0) {
    if count + byteCount + Self.fixedByteCount > capacity { grow(byteCount) }
  }

  @inline(never)
  private func grow(_ byteCount: Int) {
    capacity = max(capacity * 2, count + byteCount + Self.fixedByteCount)
    let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
    larger.update(from: base, count: count)
    base.deallocate()
    base = larger
  }

  // MARK: Appending parts of fixed size

  @inline(__always)
  func append(_ text: StaticString) {
    memcpy(base + count, text.utf8Start, text.utf8CodeUnitCount)
    count += text.utf8CodeUnitCount
  }

  @inline(__always)
  func append(_ number: UInt64) {
    var digits = 1
    var limit: UInt64 = 10
    while number >= limit {
      digits += 1
      let (next, isOverflow) = limit.multipliedReportingOverflow(by: 10)
      if isOverflow { break }
      limit = next
    }
    var rest = number
    var position = count + digits
    count = position
    repeat {
      position -= 1
      let quotient = rest / 10
      base[position] = 0x30 &+ UInt8(truncatingIfNeeded: rest &- quotient &* 10)
      rest = quotient
    } while rest > 0
  }

  @inline(__always)
  func append(_ number: Int64) {
    if number < 0 { append("-") }
    append(number.magnitude)
  }

  /// Appends 16 hexadecimal digits.
  @inline(__always)
  func append(hexadecimal number: UInt64) {
    var rest = number
    var position = count + 16
    count = position
    for _ in 0..<16 {
      position -= 1
      let digit = UInt8(truncatingIfNeeded: rest & 15)
      base[position] = digit < 10 ? 0x30 &+ digit : 0x57 &+ digit
      rest >>= 4
    }
  }

  // MARK: Appending parts of variable size

  func append(_ text: UnsafeRawBufferPointer) {
    reserve(text.count)
    guard let start = text.baseAddress else { return }
    memcpy(base + count, start, text.count)
    count += text.count
  }

  func append(_ text: [UInt8]) { text.withUnsafeBytes { append($0) } }
  func append(_ text: ArraySlice<UInt8>) { text.withUnsafeBytes { append($0) } }

  /// Appends a name that contains no character that JSON must escape.
  func append(name: String) {
    var name = name
    name.withUTF8 { append(UnsafeRawBufferPointer($0)) }
  }

  /// Appends the members of an event in a pipe, without the closing bracket: `["numbers",1,7`.
  func append(pipe: String, _ stream: UInt64, _ number: UInt64) {
    append("[\"")
    append(name: pipe)
    append("\",")
    append(stream)
    append(",")
    append(number)
  }

  /// Writes the text to an open file.
  /// - Returns: The number of bytes written, and the errno if not all bytes were written.
  func write(to descriptor: Int32) -> (count: Int, problem: Int32?) {
    var done = 0
    while done < count {
      let written = Glibc.write(descriptor, base + done, count - done)
      if written < 0, errno == EINTR { continue }
      guard written > 0 else { return (done, written < 0 ? errno : ENOSPC) }
      done += written
    }
    return (done, nil)
  }
}
