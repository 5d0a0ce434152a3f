import PipeSupport
import PipeSystem
import PipeWire

/// Reads the logs of a topology's nodes page by page, merged in order of time.
///
/// The pager keeps no state between pages: each page contains the positions at which the next page
/// starts. The positions stay valid when the log files are rotated.
package struct LogPager {
  private let directory: String
  private let byteLimit: Int

  /// The maximum size of a page; a page with a single line may be larger. Unit: bytes. As JSON, a
  /// page can be six times as large, and must still fit into a message: see
  /// ``WireLimits/maximumMessageByteCount``.
  package static let wireByteLimit = 512 << 10
  /// The maximum size of a page for a reader on this host. The size is large, so that a reader gets
  /// many large logs in a few pages. Unit: bytes.
  static let fileByteLimit = 64 << 20
  /// The minimum number of bytes to read from each node's log, even if there are many nodes. Every
  /// line is shorter than this minimum, since long lines are cut when they are written.
  private static let minimumByteShare = 128 << 10

  /// Log entries in order of time.
  package struct Entries {
    package var entries: [LogEntry]
    /// For each existing log, the position at which the next page starts.
    package var positions: [LogPosition]
    /// Whether there are more entries that did not fit into the page.
    package var hasMore: Bool
  }

  /// - Parameter byteLimit: The maximum size of a page; a page with a single line may be larger.
  ///   Unit: bytes.
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

  /// Returns the entries of a page.
  /// - Parameter clock: Returns the time of day.
  package func entries(_ request: LogRequest, clock: () -> Timestamp = { .now }) -> Entries {
    let nodes = request.nodes ?? LogReader.nodesWithLogs(in: directory)
    let share = max(Self.minimumByteShare, byteLimit / max(1, nodes.count))
    let start = clock()
    var parts = nodes.compactMap { node in
      LogPart(
        of: node, at: "\(directory)/\(node).log",
        after: request.positions.first { $0.node == node }, request, byteLimit: share)
    }
    if request.isFollowed, parts.count > 1 {
      // The logs were read one after another, so a log that was read early may lack entries that are
      // older than entries of a log that was read late. To keep all entries in order, the entries
      // that were written after the start of this call are left for the next page.
      let end = clock()
      for index in parts.indices { parts[index].cut { start < $0 && $0 <= end } }
    }
    return merge(parts)
  }

  /// Merges the entries of all parts in order of time, up to the maximum size of a page.
  private func merge(_ parts: [LogPart]) -> Entries {
    // If a log was not read to its end, its unread entries may be older than entries of other logs.
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
      found.positions[part] = line.endPosition
    }
    return found
  }
}

/// The lines of one node's log from a position on.
private struct LogPart {
  struct Line {
    let entry: LogEntry
    /// The latest time of this line and the lines before it. After the clock was set back, this
    /// time can be later than the time of the line itself.
    let time: Timestamp
    let endPosition: LogPosition
  }

  /// A position in the files of a log.
  private struct Position {
    var fileIndex: Int
    var offset: Int
  }

  /// The position of the first line.
  private(set) var start: LogPosition
  private(set) var lines: [Line] = []
  private(set) var hasMore = false

  /// The maximum number of older files whose identities a position contains.
  private static let maximumFormerCount = 8

  /// - Returns: `nil` if there is no log.
  init?(
    of node: String, at path: String, after lastPosition: LogPosition?, _ request: LogRequest,
    byteLimit: Int
  ) {
    guard let current = LogFile(path) else { return nil }
    let files =
      current.identity == lastPosition?.file ? [current] : LogFile.all(path, from: current)
    let former =
      current.identity == lastPosition?.file
      ? lastPosition?.formerFiles ?? [] : files.dropLast().map(\.identity)
    var lastTime =
      lastPosition.map { Timestamp(nanoseconds: $0.time) } ?? Timestamp(milliseconds: 0)
    func makePosition(_ position: Position) -> LogPosition {
      let behind = files.count == 1 ? former : Array(former.prefix(position.fileIndex))
      return LogPosition(
        node: node, file: files[position.fileIndex].identity, offset: position.offset,
        time: lastTime.nanoseconds, formerFiles: behind.suffix(Self.maximumFormerCount))
    }
    var position: Position
    if let lastPosition {
      guard let found = Self.position(of: lastPosition, in: files) else {
        // The file of this position was removed, and no newer file exists.
        start = lastPosition
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
      // A line in another format, for example because a user has edited the file, keeps its
      // position between the lines before and after it.
      let entry =
        LogEntry(node: node, line: text)
        ?? LogEntry(node: node, time: lastTime, stream: .out, text: text)
      lastTime = entry.time
      time = max(time, entry.time)
      lines.append(
        Line(
          entry: entry, time: time,
          endPosition: makePosition(Position(fileIndex: position.fileIndex, offset: end))))
    }
    while true {
      let offset = position.offset
      let bytes = files[position.fileIndex].read(at: offset, limit: left)
      var rest = bytes[...]
      while let end = rest.firstIndex(of: 0x0A) {
        add(rest[..<end], endingAt: offset + end + 1)
        rest = rest[(end + 1)...]
      }
      let isCut = bytes.count == left
      // An incomplete line is added in two cases: it fills the whole page, or it is the last line
      // of a rotated file.
      if !rest.isEmpty, isCut ? lines.isEmpty : position.fileIndex + 1 < files.count {
        add(rest, endingAt: offset + bytes.count)
      }
      left -= bytes.count
      if isCut {
        hasMore = true
        return
      }
      guard position.fileIndex + 1 < files.count else { return }
      position = Position(fileIndex: position.fileIndex + 1, offset: 0)
    }
  }

  /// Removes the first line whose time satisfies the condition, and all lines after it. The removed
  /// lines belong to the next page.
  mutating func cut(from isLater: (Timestamp) -> Bool) {
    guard let index = lines.firstIndex(where: { isLater($0.entry.time) }) else { return }
    lines.removeSubrange(index...)
    hasMore = false
  }

  /// Returns the position at which the next page starts; `nil` if no file is left that can contain
  /// new lines.
  ///
  /// A file that another program has truncated is read from its beginning. If a file was removed,
  /// its unread lines are lost.
  private static func position(of mark: LogPosition, in files: [LogFile]) -> Position? {
    if let index = files.firstIndex(where: { $0.identity == mark.file }) {
      let offset = max(0, mark.offset)
      return Position(fileIndex: index, offset: offset <= files[index].byteCount ? offset : 0)
    }
    // The position contains the identities of the newest files that are older than the file of the
    // position. These files, and all older files, were already read.
    let next = files.lastIndex { mark.formerFiles.contains($0.identity) }.map { $0 + 1 } ?? 0
    return next < files.count ? Position(fileIndex: next, offset: 0) : nil
  }

  /// Returns the position of the first requested line.
  private static func beginning(
    of files: [LogFile], _ node: String, _ request: LogRequest
  ) -> Position {
    guard request.lines != nil || request.since != nil else {
      return Position(fileIndex: 0, offset: 0)
    }
    var end: Position?
    var first: Position?
    var count = 0
    // There may be many files, so the search starts at the newest file and stops as soon as
    // possible.
    for index in files.indices.reversed() {
      let (lines, fileEnd) = Self.lines(of: files[index], node)
      end = end ?? Position(fileIndex: index, offset: fileEnd)
      var wanted = lines[...]
      if let since = request.since { wanted = wanted.drop { $0.time.milliseconds < since } }
      if let limit = request.lines { wanted = wanted.suffix(max(0, limit - count)) }
      count += wanted.count
      first = wanted.first.map { Position(fileIndex: index, offset: $0.start) } ?? first
      if wanted.count < lines.count { break }
    }
    return first ?? end ?? Position(fileIndex: 0, offset: 0)
  }

  /// Returns, for each line of a file, the start and the time of the line; and the end of the last
  /// line. A line without a time gets the time of the line before it.
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
