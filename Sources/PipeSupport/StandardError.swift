#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// This process's standard error.
package enum StandardError {
  /// Writes all of the text, or as much as is taken.
  package static func write(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
      var offset = 0
      while offset < bytes.count {
        let count = writeBytes(
          STDERR_FILENO, bytes.baseAddress! + offset, bytes.count - offset)
        guard count > 0 else { return }
        offset += count
      }
    }
  }
}

/// The system's call, which the type's own function of that name would hide.
private func writeBytes(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
  write(descriptor, bytes, count)
}

extension FixedWidthInteger {
  /// Whether a log tells of what has happened so often: the first three times, then ever less often.
  package var isWorthLogging: Bool { self <= 3 || nonzeroBitCount == 1 }
}
