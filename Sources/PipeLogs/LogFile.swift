import Glibc
import PipeSystem

/// A log file that is open, wherever rotation moves it; closed with its last use.
final class LogFile {
  let identity: FileIdentity
  private let descriptor: Int32

  init?(_ path: String) {
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    // Whatever else stands in a log's place may have no end.
    guard let identity = FileIdentity(descriptor: descriptor), identity.isOfFile else {
      close(descriptor)
      return nil
    }
    self.identity = identity
  }

  deinit { close(descriptor) }

  /// A node's log and those that were put aside before it, oldest first.
  static func all(_ path: String) -> [LogFile] {
    var files = [LogFile(path)].compactMap(\.self)
    var index = 1
    while let older = LogFile("\(path).\(index)") {
      // Rotated after it was opened.
      if older.identity != files.last?.identity { files.append(older) }
      index += 1
    }
    return files.reversed()
  }

  /// What is behind what was read last; all, where another program has truncated the file meanwhile.
  func read() -> [UInt8] {
    var status = stat()
    if fstat(descriptor, &status) == 0, status.st_size < lseek(descriptor, 0, SEEK_CUR) {
      lseek(descriptor, 0, SEEK_SET)
    }
    return (try? FileSystem.read(descriptor)) ?? []
  }

  /// - Parameter limit: The most bytes.
  func read(at offset: Int, limit: Int = .max) -> [UInt8] {
    guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else { return [] }
    return (try? FileSystem.read(descriptor, limit: limit)) ?? []
  }
}
