import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// Reads the log files of a topology's nodes, merged in order of time, and follows them as they
/// grow and rotate.
package struct LogReader {
  package let directory: String
  private let pager: LogPager
  private var request: LogRequest

  /// - Parameter nodes: The requested nodes; `nil` for all, including nodes that appear later.
  package init(directory: String, nodes: [String]? = nil) {
    self.directory = directory
    pager = LogPager(directory: directory, byteLimit: LogPager.fileByteLimit)
    request = LogRequest(nodes: nodes)
  }

  /// Returns the nodes that have a log.
  package static func nodes(in directory: String) -> [String] {
    FileSystem.entries(of: directory).compactMap {
      $0.hasSuffix(".log") ? String($0.dropLast(4)) : nil
    }
  }

  /// Returns the message that there is no log of a node.
  package static func unknown(_ node: String, of topology: String, known: [String]) -> String {
    "topology '\(topology)' has no log of node '\(node)'"
      + (known.isEmpty ? "" : Suggestion.among(known, like: node))
  }

  /// Returns the entries written since the last call, in order. The first call returns the last
  /// lines of each node.
  /// - Parameters:
  ///   - limit: The maximum number of lines of each node on the first call; `nil` for all.
  ///   - time: The time of the oldest lines that the first call returns; `nil` for all.
  ///   - hasMore: Whether another call follows. An entry written during this call then waits for
  ///     the next call, since a log that was read earlier may have an older entry.
  ///   - clock: The time of day.
  package mutating func next(
    limit: Int? = nil, since time: Timestamp? = nil, hasMore: Bool = false,
    clock: () -> Timestamp = { .now }
  ) -> [LogEntry] {
    if request.positions.isEmpty { (request.lines, request.since) = (limit, time?.milliseconds) }
    request.isFollowed = hasMore
    var entries: [LogEntry] = []
    while true {
      let page = pager.entries(request, clock: clock)
      entries += page.entries
      request.take(page.positions)
      guard page.hasMore else { return entries }
    }
  }
}

/// An open log file, wherever rotation moves it. It is closed when the last reference is released.
final class LogFile {
  /// The identity of the file among all former and later files at its path: a new file may have the
  /// number of a removed one.
  let name: String
  private let descriptor: Int32

  init?(_ path: String) {
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    // Another kind of file at a log's path may have no end.
    guard let identity = FileIdentity(descriptor: descriptor), identity.isRegularFile else {
      close(descriptor)
      return nil
    }
    name = "\(identity.text):\(FileSystem.birthTime(of: descriptor))"
  }

  deinit { close(descriptor) }

  /// Returns a node's log and its rotated files, oldest first.
  /// - Parameter current: The log itself, if it is open already.
  static func all(_ path: String, from current: LogFile? = nil) -> [LogFile] {
    var files = [current ?? LogFile(path)].compactMap(\.self)
    var index = 1
    while let older = LogFile("\(path).\(index)") {
      // The file was rotated after it was opened.
      if older.name != files.last?.name { files.append(older) }
      index += 1
    }
    return files.reversed()
  }

  /// The current size of the file. Unit: bytes.
  var byteCount: Int {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
  }

  /// - Parameter limit: The maximum number of bytes.
  func read(at offset: Int, limit: Int = .max) -> [UInt8] {
    guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else { return [] }
    return (try? FileSystem.read(descriptor, limit: limit)) ?? []
  }
}
