import Glibc

/// Reads a file line by line, without copying the lines.
package final class LineReader {
  package let path: String
  /// The number of lines read so far.
  package private(set) var lineNumber = 0
  /// Whether the file ends with an incomplete line. Valid after ``next()`` has returned `nil`.
  package private(set) var isTorn = false
  private let descriptor: Int32
  private var buffer: UnsafeMutableRawBufferPointer
  /// The part of the buffer that is not consumed yet.
  private var unread = 0..<0
  /// The position in the file at which the unread part of the buffer begins. Unit: bytes.
  private var offset = 0
  private var hasEnded = false

  /// Opens a file.
  package init(_ path: String) throws(SystemError) {
    self.path = path
    descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    buffer = .allocate(byteCount: 1 << 16, alignment: 8)
  }

  deinit {
    buffer.deallocate()
    close(descriptor)
  }

  /// Returns the text of the next line without the line feed, and the offset of the line in the
  /// file in bytes; `nil` after the last complete line. The text is valid until the next call.
  package func next() throws(SystemError) -> (text: UnsafeRawBufferPointer, offset: Int)? {
    var searched = unread.lowerBound
    while true {
      if let end = endOfLine(from: searched) {
        let line = UnsafeRawBufferPointer(rebasing: buffer[unread.lowerBound..<end])
        let start = offset
        offset += line.count + 1
        unread = (end + 1)..<unread.upperBound
        lineNumber += 1
        return (line, start)
      }
      guard !hasEnded else {
        isTorn = !unread.isEmpty
        return nil
      }
      let count = unread.count
      try fill()
      searched = unread.lowerBound + count
    }
  }

  private func endOfLine(from start: Int) -> Int? {
    guard start < unread.upperBound, let base = buffer.baseAddress,
      let found = memchr(base + start, 0x0A, unread.upperBound - start)
    else { return nil }
    return UnsafeRawPointer(found) - UnsafeRawPointer(base)
  }

  /// Reads more of the file. Enlarges the buffer for a line that does not fit into it.
  private func fill() throws(SystemError) {
    if unread.count == buffer.count {
      let larger = UnsafeMutableRawBufferPointer.allocate(
        byteCount: buffer.count * 2, alignment: 8)
      larger.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[unread]))
      buffer.deallocate()
      buffer = larger
    } else if let base = buffer.baseAddress, !unread.isEmpty {
      memmove(base, base + unread.lowerBound, unread.count)
    }
    unread = 0..<unread.count
    var count = 0
    repeat {
      count = Glibc.read(
        descriptor, buffer.baseAddress! + unread.count, buffer.count - unread.count)
    } while count < 0 && errno == EINTR
    guard count >= 0 else { throw SystemError("read", on: path, code: errno) }
    hasEnded = count == 0
    unread = 0..<(unread.count + count)
  }
}
