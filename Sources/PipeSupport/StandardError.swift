import Glibc

/// This process's standard error.
package enum StandardError {
  /// Writes all of the text, or as much as is taken.
  package static func write(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
      var offset = 0
      while offset < bytes.count {
        let count = Glibc.write(
          STDERR_FILENO, bytes.baseAddress! + offset, bytes.count - offset)
        guard count > 0 else { return }
        offset += count
      }
    }
  }
}
