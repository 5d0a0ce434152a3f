import FoundationEssentials
import PipeRuntime
import Synchronization

/// A directory for one section's sockets, logs and topology files; gone with this value.
final class TemporaryDirectory: Sendable {
  let path: String
  private let cleanup: Int
  private let count = Mutex(0)

  init() throws {
    let path = try FileSystem.makeTemporaryDirectory("/tmp/pr-bench-")
    self.path = path
    cleanup = Cleanup.add { FileSystem.removeTree(path) }
  }

  deinit {
    Cleanup.remove(cleanup)
    FileSystem.removeTree(path)
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
}
