import PipeSupport
import PipeSystem
import PipeWire

/// Reads the logs of a topology's nodes page by page, merged in order of time.
///
/// Nothing is kept in between: the marks of a page say where the next one begins, wherever rotation has moved the files.
package struct LogPager {
  private let directory: String
  private let byteLimit: Int

  /// The most that a page has, but for a line that is longer. As JSON it may be six times as much.
  /// Unit: bytes. Source: ``WireLimits/messageByteCount``.
  package static let wireByteLimit = 512 << 10
  /// The same of a page for a reader of this host, so that many large logs are read in few passes. Unit: bytes.
  static let fileByteLimit = 64 << 20
  /// The least that is read of one node, where there are many. Lines are shorter: they are cut as they are written.
  /// Unit: bytes.
  private static let leastShare = 128 << 10

  /// Entries of logs, in the order of their times.
  package struct Entries {
    package var entries: [LogEntry]
    /// Of each log that there is.
    package var marks: [LogMark]
    /// Whether there is more than a page may have.
    package var hasMore: Bool
  }

  /// - Parameter byteLimit: The most that a page has, but for a line that is longer.
  package init(directory: String, byteLimit: Int = wireByteLimit) {
    self.directory = directory
    self.byteLimit = byteLimit
  }

  /// The page for a client of another host.
  package func page(_ request: LogRequest) -> LogPage {
    let found = entries(request)
    return LogPage(
      lines: found.entries.map { .init(node: $0.node, text: $0.line) }, marks: found.marks,
      hasMore: found.hasMore)
  }

  /// - Parameter clock: The time of day.
  package func entries(_ request: LogRequest, clock: () -> Timestamp = { .now }) -> Entries {
    let nodes = request.nodes ?? LogReader.nodes(in: directory)
    let share = max(Self.leastShare, byteLimit / max(1, nodes.count))
    let start = clock()
    var parts = nodes.compactMap { node in
      LogPart(
        of: node, at: "\(directory)/\(node).log",
        behind: request.marks.first { $0.node == node }, request, byteLimit: share)
    }
    if request.isFollowed, parts.count > 1 {
      // Another log, which was read before, may have an older entry by now.
      let end = clock()
      for index in parts.indices { parts[index].cut { start < $0 && $0 <= end } }
    }
    return merge(parts)
  }

  /// The first entries of all parts together.
  private func merge(_ parts: [LogPart]) -> Entries {
    // What one that was cut has not shown yet may be older than what others have.
    let horizon = parts.filter(\.hasMore).compactMap(\.lines.last?.time).min()
    let all = parts.indices.flatMap { part in parts[part].lines.map { (part: part, line: $0) } }
    let order =
      horizon == nil
      ? LogOrder.order(of: all.map(\.line.entry))
      : all.indices.sorted { (all[$0].line.time, $0) < (all[$1].line.time, $1) }
    var found = Entries(
      entries: [], marks: parts.map(\.start), hasMore: parts.contains(where: \.hasMore))
    var byteCount = 0
    for (part, line) in order.lazy.map({ all[$0] }) {
      if let horizon, line.time > horizon { break }
      byteCount += line.entry.text.utf8.count
      if byteCount > byteLimit, !found.entries.isEmpty {
        found.hasMore = true
        break
      }
      found.entries.append(line.entry)
      found.marks[part] = line.end
    }
    return found
  }
}

/// Lines of one node's log, from some position on.
private struct LogPart {
  struct Line {
    let entry: LogEntry
    /// When it was written, or a line before it, where the clock was set back.
    let time: Timestamp
    let end: LogMark
  }

  /// A position in the files of a log.
  private struct Position {
    var file: Int
    var offset: Int
  }

  /// Where it begins.
  private(set) var start: LogMark
  private(set) var lines: [Line] = []
  private(set) var hasMore = false

  /// The most files that a mark names before its own.
  private static let formerLimit = 8

  /// - Returns: `nil` where there is no log.
  init?(
    of node: String, at path: String, behind mark: LogMark?, _ request: LogRequest, byteLimit: Int
  ) {
    guard let current = LogFile(path) else { return nil }
    let files = current.name == mark?.file ? [current] : LogFile.all(path, from: current)
    let former = current.name == mark?.file ? mark?.former ?? [] : files.dropLast().map(\.name)
    var lastTime = mark.map { Timestamp(nanoseconds: $0.time) } ?? Timestamp(milliseconds: 0)
    func made(_ position: Position) -> LogMark {
      let behind = files.count == 1 ? former : Array(former.prefix(position.file))
      return LogMark(
        node: node, file: files[position.file].name, offset: position.offset,
        time: lastTime.nanoseconds, former: behind.suffix(Self.formerLimit))
    }
    var position: Position
    if let mark {
      guard let found = Self.position(of: mark, in: files) else {
        // Its file was removed, and none has come after it.
        start = mark
        return
      }
      position = found
    } else {
      position = Self.beginning(of: files, node, request)
    }
    start = made(position)
    var left = byteLimit
    var time = Timestamp(milliseconds: .min)
    func add(_ bytes: ArraySlice<UInt8>, endingAt end: Int) {
      let text = String(decoding: bytes, as: UTF8.self)
      // A line that is not of our form, after somebody edited the file, keeps its place.
      let entry =
        LogEntry(node: node, line: text)
        ?? LogEntry(node: node, time: lastTime, stream: .out, text: text)
      lastTime = entry.time
      time = max(time, entry.time)
      lines.append(
        Line(entry: entry, time: time, end: made(Position(file: position.file, offset: end))))
    }
    while true {
      let offset = position.offset
      let bytes = files[position.file].read(at: offset, limit: left)
      var rest = bytes[...]
      while let end = rest.firstIndex(of: 0x0A) {
        add(rest[..<end], endingAt: offset + end + 1)
        rest = rest[(end + 1)...]
      }
      let isCut = bytes.count == left
      // A line without an end: as long as may be shown at once, or the last one of a file that was put aside.
      if !rest.isEmpty, isCut ? lines.isEmpty : position.file + 1 < files.count {
        add(rest, endingAt: offset + bytes.count)
      }
      left -= bytes.count
      if isCut {
        hasMore = true
        return
      }
      guard position.file + 1 < files.count else { return }
      position = Position(file: position.file + 1, offset: 0)
    }
  }

  /// Leaves the lines for the next page from the first one on that was written at such a time.
  mutating func cut(from isLater: (Timestamp) -> Bool) {
    guard let index = lines.firstIndex(where: { isLater($0.entry.time) }) else { return }
    lines.removeSubrange(index...)
    hasMore = false
  }

  /// Where the next page begins; `nil` where nothing has come since.
  ///
  /// A file that another program has truncated is read from its beginning. Of a file that was removed the rest is lost.
  private static func position(of mark: LogMark, in files: [LogFile]) -> Position? {
    if let index = files.firstIndex(where: { $0.name == mark.file }) {
      let offset = max(0, mark.offset)
      return Position(file: index, offset: offset <= files[index].byteCount ? offset : 0)
    }
    // The mark names the newest of the files before its own: all that are older were read as well.
    let next = files.lastIndex { mark.former.contains($0.name) }.map { $0 + 1 } ?? 0
    return next < files.count ? Position(file: next, offset: 0) : nil
  }

  /// Where the last lines begin that are wanted.
  private static func beginning(
    of files: [LogFile], _ node: String, _ request: LogRequest
  ) -> Position {
    guard request.lines != nil || request.since != nil else { return Position(file: 0, offset: 0) }
    var end: Position?
    var first: Position?
    var count = 0
    // From the newest file back, as far as they are wanted: there may be many.
    for index in files.indices.reversed() {
      let (lines, fileEnd) = Self.lines(of: files[index], node)
      end = end ?? Position(file: index, offset: fileEnd)
      var wanted = lines[...]
      if let since = request.since { wanted = wanted.drop { $0.time.milliseconds < since } }
      if let limit = request.lines { wanted = wanted.suffix(max(0, limit - count)) }
      count += wanted.count
      first = wanted.first.map { Position(file: index, offset: $0.start) } ?? first
      if wanted.count < lines.count { break }
    }
    return first ?? end ?? Position(file: 0, offset: 0)
  }

  /// Where the lines of a file begin, each with its time or that of a line before it, and where the last one ends.
  private static func lines(
    of file: LogFile, _ node: String
  ) -> (lines: [(start: Int, time: Timestamp)], end: Int) {
    let bytes = file.read(at: 0)
    var lines: [(start: Int, time: Timestamp)] = []
    var time = Timestamp(milliseconds: 0)
    var rest = bytes[...]
    while let end = rest.firstIndex(of: 0x0A) {
      let text = String(decoding: rest[..<end], as: UTF8.self)
      time = LogEntry(node: node, line: text)?.time ?? time
      lines.append((rest.startIndex, time))
      rest = rest[(end + 1)...]
    }
    return (lines, rest.startIndex)
  }
}
