import FoundationEssentials
import Glibc
import PipeRuntime
import Synchronization

/// A directory for one section's sockets, logs and topology files; gone with this value.
final class TemporaryDirectory: Sendable {
  let path: String
  private let cleanup: Int
  private let count = Mutex(0)

  init() throws {
    var template = Array("/tmp/pr-bench-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else {
      throw SystemError("mkdtemp", on: "/tmp/pr-bench-XXXXXX", code: errno)
    }
    let path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    self.path = path
    cleanup = Cleanup.add { Self.delete(path) }
  }

  deinit {
    Cleanup.remove(cleanup)
    Self.delete(path)
  }

  /// A path in the directory that nothing else has.
  func uniquePath(_ name: String) -> String {
    let number = count.withLock { count in
      count += 1
      return count
    }
    return "\(path)/\(name)\(number)"
  }

  func write(_ text: String, to name: String) throws -> String {
    let file = path + "/" + name
    try Data(text.utf8).write(to: URL(filePath: file))
    return file
  }

  private static func delete(_ path: String) { try? FileManager.default.removeItem(atPath: path) }
}
