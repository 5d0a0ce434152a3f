import Glibc
import PipeRuntime

/// A raw baseline: a file that is written and synced as a log is.
final class RawDisk {
  /// What is written at a time: a page of a journal.
  static let byteCount = 4_096

  private let path: String
  private let descriptor: Int32
  private let bytes = [UInt8](repeating: 0x61, count: byteCount)

  init(in directory: TemporaryDirectory) throws {
    path = directory.uniquePath("disk")
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
  }

  deinit { close(descriptor) }

  /// Writes and syncs again and again.
  /// - Returns: The time of one write that is synced. Unit: seconds.
  func write(count: Int) throws -> Double {
    let start = Clock.nanoseconds
    for _ in 0..<count {
      guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
        throw SystemError("write", on: path, code: errno)
      }
      guard fdatasync(descriptor) == 0 else {
        throw SystemError("fdatasync", on: path, code: errno)
      }
    }
    return Double(Clock.nanoseconds - start) / 1e9 / Double(count)
  }
}
