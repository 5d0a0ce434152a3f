import PipeSupport
import PipeSystem
import PipeWire

/// Reads the logs of a topology's nodes page by page, merged in order of time.
///
/// The pager keeps no state between pages: the positions of a page give the start of the next one, even
/// if rotation has moved the files.
package struct LogPager {
  private let directory: String
  private let byteLimit: Int

  /// The maximum size of a page, unless a single line is longer. As JSON, the page may be six times
  /// as large. Unit: bytes. Source: ``WireLimits/messageByteCount``.
  package static let wireByteLimit = 512 << 10
  /// The maximum size of a page for a reader on this host, so that many large logs are read in few
  /// passes. Unit: bytes.
  static let fileByteLimit = 64 << 20
  /// The minimum that is read of each node, if there are many nodes. Lines are shorter, since they
  /// are cut when they are written. Unit: bytes.
  private static let minimumShare = 128 << 10

  /// Log entries in order of time.
  package struct Entries {
    package var entries: [LogEntry]
    /// A mark for each existing log.
    package var positions: [LogPosition]
    /// Whether there are more entries than fit into a page.
    package var hasMore: Bool
  }

  /// - Parameter byteLimit: The maximum size of a page, unless a single line is longer. Unit: bytes.
  package init(directory: String, byteLimit: Int = wireByteLimit) {
    self.directory = directory
    self.byteLimit = byteLimit
  }

  /// Returns the page for a client on another host.
  package func page(_ request: LogRequest) -> LogPage {
    let found = entries(request)
    return LogPage(
      lines: found.entries.map { .init(node: $0.node, text: $0.line) }, positions: found.positions,
      hasMore: found.hasMore)
  }

  /// - Parameter clock: Returns the time of day.
  package func entries(_ request: LogRequest, clock: () -> Timestamp = { .now }) -> Entries {
    let nodes = request.nodes ?? LogReader.nodes(in: directory)
    let share = max(Self.minimumShare, byteLimit / max(1, nodes.count))
    let start = clock()
    var parts = nodes.compactMap { node in
      LogPart(
        of: node, at: "\(directory)/\(node).log",
        behind: request.positions.first { $0.node == node }, request, byteLimit: share)
    }
    if request.isFollowed, parts.count > 1 {
      // A log that was read earlier may have got an older entry since.
      let end = clock()
      for index in parts.indices { parts[index].cut { start < $0 && $0 <= end } }
    }
    return merge(parts)
  }

  /// Merges the first entries of all parts.
  private func merge(_ parts: [LogPart]) -> Entries {
    // Entries of a log that was cut, and are not read yet, may be older than entries of other logs.
    let horizon = parts.filter(\.hasMore).compactMap(\.lines.last?.time).min()
    let all = parts.indices.flatMap { part in parts[part].lines.map { (part: part, line: $0) } }
    let order =
      horizon == nil
      ? LogOrder.order(of: all.map(\.line.entry))
      : all.indices.sorted { (all[$0].line.time, $0) < (all[$1].line.time, $1) }
    var found = Entries(
      entries: [], positions: parts.map(\.start), hasMore: parts.contains(where: \.hasMore))
    var byteCount = 0
    for (part, line) in order.lazy.map({ all[$0] }) {
      if let horizon, line.time > horizon { break }
      byteCount += line.entry.text.utf8.count
      if byteCount > byteLimit, !found.entries.isEmpty {
        found.hasMore = true
        break
      }
      found.entries.append(line.entry)
      found.positions[part] = line.end
    }
    return found
  }
}

/// Lines of one node's log, from some position on.
private struct LogPart {
  struct Line {
    let entry: LogEntry
    /// When the line was written, or a line before it, if the clock was set back.
    let time: Timestamp
    let end: LogPosition
  }

  /// A position in the files of a log.
  private struct Position {
    var file: Int
    var offset: Int
  }

  /// The position of the first line.
  private(set) var start: LogPosition
  private(set) var lines: [Line] = []
  private(set) var hasMore = false

  /// The maximum number of former files that a mark names.
  private static let formerLimit = 8

  /// - Returns: `nil` if there is no log.
  init?(
    of node: String, at path: String, behind mark: LogPosition?, _ request: LogRequest,
    byteLimit: Int
  ) {
    guard let current = LogFile(path) else { return nil }
    let files = current.name == mark?.file ? [current] : LogFile.all(path, from: current)
    let former = current.name == mark?.file ? mark?.former ?? [] : files.dropLast().map(\.name)
    var lastTime = mark.map { Timestamp(nanoseconds: $0.time) } ?? Timestamp(milliseconds: 0)
    func makePosition(_ position: Position) -> LogPosition {
      let behind = files.count == 1 ? former : Array(former.prefix(position.file))
      return LogPosition(
        node: node, file: files[position.file].name, offset: position.offset,
        time: lastTime.nanoseconds, former: behind.suffix(Self.formerLimit))
    }
    var position: Position
    if let mark {
      guard let found = Self.position(of: mark, in: files) else {
        // The mark's file was removed, and there is no newer file.
        start = mark
        return
      }
      position = found
    } else {
      position = Self.beginning(of: files, node, request)
    }
    start = makePosition(position)
    var left = byteLimit
    var time = Timestamp(milliseconds: .min)
    func add(_ bytes: ArraySlice<UInt8>, endingAt end: Int) {
      let text = String(decoding: bytes, as: UTF8.self)
      // A line in another format, after the file was edited, keeps its position.
      let entry =
        LogEntry(node: node, line: text)
        ?? LogEntry(node: node, time: lastTime, stream: .out, text: text)
      lastTime = entry.time
      time = max(time, entry.time)
      lines.append(
        Line(
          entry: entry, time: time, end: makePosition(Position(file: position.file, offset: end))))
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
      // A line without an end: it is as long as a page may be, or the last line of a rotated file.
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

  /// Leaves lines for the next page: all lines from the first one with such a time on.
  mutating func cut(from isLater: (Timestamp) -> Bool) {
    guard let index = lines.firstIndex(where: { isLater($0.entry.time) }) else { return }
    lines.removeSubrange(index...)
    hasMore = false
  }

  /// Returns the start of the next page; `nil` if there are no new lines.
  ///
  /// A file that another program has truncated is read from its beginning. The rest of a file that
  /// was removed is lost.
  private static func position(of mark: LogPosition, in files: [LogFile]) -> Position? {
    if let index = files.firstIndex(where: { $0.name == mark.file }) {
      let offset = max(0, mark.offset)
      return Position(file: index, offset: offset <= files[index].byteCount ? offset : 0)
    }
    // The mark names the newest files before its own. All older files were read as well.
    let next = files.lastIndex { mark.former.contains($0.name) }.map { $0 + 1 } ?? 0
    return next < files.count ? Position(file: next, offset: 0) : nil
  }

  /// Returns the start of the requested last lines.
  private static func beginning(
    of files: [LogFile], _ node: String, _ request: LogRequest
  ) -> Position {
    guard request.lines != nil || request.since != nil else { return Position(file: 0, offset: 0) }
    var end: Position?
    var first: Position?
    var count = 0
    // Goes back from the newest file only as far as required: there may be many files.
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

  /// Returns where the lines of a file begin, each with its time or the time of a line before it,
  /// and where the last line ends.
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
