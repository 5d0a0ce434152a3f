import Glibc
import PipeSupport
import PipeSystem

/// Reads the log files of a topology's nodes, merged in order of time, and follows them as they
/// grow and rotate.
package struct LogReader {
  package let directory: String
  /// The nodes asked for; `nil` for all, those that appear later included.
  package let nodes: [String]?
  private var tails: [String: LogTail] = [:]
  private var isFirst = true
  /// Entries that were written while the last look was under way.
  private var held: [LogEntry] = []

  package init(directory: String, nodes: [String]? = nil) {
    self.directory = directory
    self.nodes = nodes
  }

  /// The nodes that have a log.
  package static func nodes(in directory: String) -> [String] {
    FileSystem.entries(of: directory).compactMap {
      $0.hasSuffix(".log") ? String($0.dropLast(4)) : nil
    }
  }

  /// Says that there is no log of a node.
  package static func unknown(_ node: String, of topology: String, known: [String]) -> String {
    "topology '\(topology)' has no log of a node '\(node)'"
      + (known.isEmpty ? "" : Suggestion.among(known, like: node))
  }

  /// What was written since the last call, in order; on the first call, the last lines of each node.
  /// - Parameters:
  ///   - limit: The most lines of each node on the first call; `nil` for all.
  ///   - time: When the lines of the first call were written, or later; `nil` for all.
  ///   - hasMore: Whether another call follows. An entry that was written during this call then waits for the next
  ///     one: a log that was read earlier may hold an older one.
  ///   - clock: The time of day.
  package mutating func next(
    limit: Int? = nil, since time: Timestamp? = nil, hasMore: Bool = false,
    clock: () -> Timestamp = { .now }
  ) -> [LogEntry] {
    let limit = isFirst ? limit : nil
    isFirst = false
    let start = clock()
    var entries = held
    held = []
    for node in nodes ?? Self.nodes(in: directory) {
      var tail =
        tails.removeValue(forKey: node) ?? LogTail(node: node, path: "\(directory)/\(node).log")
      entries += tail.next(limit: limit, since: time)
      tails[node] = tail
    }
    guard tails.count > 1 else { return entries }
    if hasMore {
      let end = clock()
      held = entries.filter { start < $0.time && $0.time <= end }
      entries.removeAll { start < $0.time && $0.time <= end }
    }
    return LogOrder.merged(entries)
  }
}

/// One node's current and rotated log files, and how far they are read.
private struct LogTail {
  let node: String
  let path: String
  var file: LogFile?
  /// Those that were read or passed before, the newest last. They stay open, so that no new file takes their number.
  var former: [LogFile] = []
  var splitter = LogLineSplitter(limit: 1 << 20)
  var lastTime = Timestamp(milliseconds: 0)

  mutating func next(limit: Int?, since time: Timestamp?) -> [LogEntry] {
    guard let file else { return first(limit: limit, since: time) }
    var entries = parse(file.read())
    guard FileIdentity(path) != file.identity else { return entries }
    // Rotated: the rest of ours, then those that came after it, oldest first.
    entries += parse(file.read())
    for newer in filesNewer(than: file) {
      entries += parse(newer.read())
      if let file = self.file { former.append(file) }
      self.file = newer
    }
    former = former.suffix(Self.formerLimit)
    return entries
  }

  /// The most files that are kept open beside the present one.
  private static let formerLimit = 8

  private mutating func first(limit: Int?, since time: Timestamp?) -> [LogEntry] {
    guard let current = LogFile(path) else { return [] }
    file = current
    former = LogFile.all(path).filter { $0.identity != current.identity }.suffix(Self.formerLimit)
    var entries = parse(current.read())
    func isEnough() -> Bool {
      limit.map { entries.count >= $0 } ?? false
        || time.map { time in entries.first.map { $0.time < time } ?? false } ?? false
    }
    var index = 1
    while !isEnough(), let older = LogFile("\(path).\(index)") {
      index += 1
      // Rotated after it was opened: already read.
      if older.identity == current.identity { continue }
      var splitter = LogLineSplitter(limit: 1 << 20)
      entries = splitter.append(older.read()).map { parseLine($0) } + entries
    }
    if let time { entries = Array(entries.drop { $0.time < time }) }
    return limit.map { Array(entries.suffix($0)) } ?? entries
  }

  private func filesNewer(than file: LogFile) -> [LogFile] {
    var newer: [LogFile] = []
    if let current = LogFile(path) { newer.append(current) }
    var index = 1
    while let older = LogFile("\(path).\(index)"), older.identity != file.identity,
      !former.contains(where: { $0.identity == older.identity })
    {
      newer.append(older)
      index += 1
    }
    return newer.reversed()
  }

  private mutating func parse(_ bytes: [UInt8]) -> [LogEntry] {
    splitter.append(bytes).map { parseLine($0) }
  }

  /// A line that is not of our form, after somebody edited the file, keeps its place.
  private mutating func parseLine(_ line: String) -> LogEntry {
    let entry =
      LogEntry(node: node, line: line)
      ?? LogEntry(node: node, time: lastTime, stream: .out, text: line)
    lastTime = entry.time
    return entry
  }
}

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
