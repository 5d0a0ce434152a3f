import Glibc
import PipeRuntime

extension FileSystem {
  /// The contents of a small file, such as the kernel's about a process; `nil` where it cannot be read.
  static func contents(of path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return try? read(descriptor, limit: 1 << 20)
  }

  /// The same as text.
  static func text(of path: String) -> String? {
    contents(of: path).map { String(decoding: $0, as: UTF8.self) }
  }
}
