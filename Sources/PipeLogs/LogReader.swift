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

  /// What was written since the last call; on the first call, the last lines of each node.
  /// - Parameters:
  ///   - limit: The most lines of each node on the first call; `nil` for all.
  ///   - time: When the lines of the first call were written, or later; `nil` for all.
  package mutating func next(limit: Int? = nil, since time: Timestamp? = nil) -> [LogEntry] {
    let limit = isFirst ? limit : nil
    isFirst = false
    var entries: [LogEntry] = []
    for node in nodes ?? Self.nodes(in: directory) {
      var tail =
        tails.removeValue(forKey: node) ?? LogTail(node: node, path: "\(directory)/\(node).log")
      entries += tail.next(limit: limit, since: time)
      tails[node] = tail
    }
    guard tails.count > 1 else { return entries }
    // Sorting is stable only by the position that is added.
    return entries.enumerated()
      .sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
      .map(\.element)
  }
}

/// One node's current and rotated log files, and how far they are read.
private struct LogTail {
  let node: String
  let path: String
  var file: LogFile?
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
      self.file = newer
    }
    return entries
  }

  private mutating func first(limit: Int?, since time: Timestamp?) -> [LogEntry] {
    guard let current = LogFile(path) else { return [] }
    file = current
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
    while let older = LogFile("\(path).\(index)"), older.identity != file.identity {
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
