#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The standard error of this process.
package enum StandardError {
  /// Writes the text; stops at the first error.
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

/// Calls write(2). Inside `StandardError`, the name `write` refers to the type's own function.
private func writeBytes(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
  write(descriptor, bytes, count)
}

extension FixedWidthInteger {
  /// Whether to log a repeated event whose occurrences this integer counts. The first three
  /// occurrences are logged, then each occurrence whose count is a power of two.
  package var isWorthLogging: Bool { self <= 3 || nonzeroBitCount == 1 }
}
