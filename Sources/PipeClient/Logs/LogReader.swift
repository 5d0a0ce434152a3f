import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// Reads the log files of a topology's nodes, merged in order of time. Follows the files as they
/// grow and rotate.
package struct LogReader {
  package let directory: String
  private let pager: LogPager
  private var request: LogRequest

  /// - Parameter nodes: The requested nodes; `nil` for all nodes, including nodes that are added
  ///   later.
  package init(directory: String, nodes: [String]? = nil) {
    self.directory = directory
    pager = LogPager(directory: directory, byteLimit: LogPager.fileByteLimit)
    request = LogRequest(nodes: nodes)
  }

  /// Returns the nodes that have a log.
  package static func nodesWithLogs(in directory: String) -> [String] {
    FileSystem.entryNames(of: directory).compactMap {
      $0.hasSuffix(".log") ? String($0.dropLast(4)) : nil
    }
  }

  /// Returns the error message for a node that has no log.
  package static func unknownNodeMessage(_ node: String, of topology: String, known: [String])
    -> String
  {
    "topology '\(topology)' has no log of node '\(node)'"
      + (known.isEmpty ? "" : Suggestion.among(known, like: node))
  }

  /// Returns the entries that were written since the last call, in order. The first call returns
  /// the last lines of each node.
  /// - Parameters:
  ///   - limit: For the first call, the maximum number of lines of each node; `nil` for all.
  ///   - time: For the first call, the earliest time of returned lines; `nil` for all.
  ///   - isFollowed: Whether another call follows. If so, entries that are written during this call
  ///     are left for the next call: otherwise, a log that was already read could get an entry that
  ///     is older than the returned entries.
  ///   - clock: Returns the time of day.
  package mutating func next(
    limit: Int? = nil, since time: Timestamp? = nil, isFollowed: Bool = false,
    clock: () -> Timestamp = { .now }
  ) -> [LogEntry] {
    if request.positions.isEmpty { (request.lines, request.since) = (limit, time?.milliseconds) }
    request.isFollowed = isFollowed
    var entries: [LogEntry] = []
    while true {
      let page = pager.entries(request, clock: clock)
      entries += page.entries
      request.take(page.positions)
      guard page.hasMore else { return entries }
    }
  }
}

/// An open log file, which stays open when rotation renames the file.
final class LogFile {
  /// An identity that distinguishes the file from all former and later files at its path. The
  /// identity includes the time of creation, since a new file may have the inode number of a
  /// removed file.
  let identity: String
  private let descriptor: Int32

  init?(_ path: String) {
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    // A file that is not a regular file may have no end.
    guard let identity = FileIdentity(descriptor: descriptor), identity.isRegularFile else {
      close(descriptor)
      return nil
    }
    self.identity = "\(identity.text):\(FileSystem.birthTime(of: descriptor))"
  }

  deinit { close(descriptor) }

  /// Returns a node's log and its rotated files. The oldest file comes first.
  /// - Parameter current: The log itself, if it is already open.
  static func all(_ path: String, from current: LogFile? = nil) -> [LogFile] {
    var files = [current ?? LogFile(path)].compactMap(\.self)
    var index = 1
    while let older = LogFile("\(path).\(index)") {
      // An equal identity means that the log was rotated after it was opened.
      if older.identity != files.last?.identity { files.append(older) }
      index += 1
    }
    return files.reversed()
  }

  /// The current size of the file. Unit: bytes.
  var byteCount: Int {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
  }

  /// Reads bytes from the file.
  /// - Parameter limit: The maximum number of bytes.
  func read(at offset: Int, limit: Int = .max) -> [UInt8] {
    guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else { return [] }
    return (try? FileSystem.read(descriptor, limit: limit)) ?? []
  }
}
