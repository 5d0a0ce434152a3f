import Glibc

/// This process's standard error.
package enum StandardError {
  /// Writes all of the text, or as much as is taken.
  package static func write(_ text: String) {
    _ = FileSystem.write(Array(text.utf8), to: STDERR_FILENO)
  }
}
