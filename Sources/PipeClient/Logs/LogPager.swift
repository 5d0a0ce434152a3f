import PipeSupport
import PipeSystem
import PipeWire

/// Reads the logs of a topology's nodes page by page, for who is elsewhere. Nothing is kept in between.
package struct LogPager {
  private let directory: String

  /// The most that a page has, but for a line that is longer. As JSON it may be six times as much.
  /// Unit: bytes. Source: ``WireLimits/messageByteCount``.
  private static let byteLimit = 512 << 10
  /// Of one node, where there are many. Lines are shorter: they are cut as they are written. Unit: bytes.
  private static let leastShare = 128 << 10

  package init(directory: String) { self.directory = directory }

  package func page(_ request: LogRequest) -> LogPage {
    let nodes = request.nodes ?? LogReader.nodes(in: directory)
    let share = max(Self.leastShare, Self.byteLimit / max(1, nodes.count))
    return Self.merge(
      nodes.compactMap { node in
        LogPart(
          of: node, LogFile.all("\(directory)/\(node).log"),
          behind: request.marks.first { $0.node == node }, request, byteLimit: share)
      })
  }

  /// The first lines of all parts together, in the order of their times.
  private static func merge(_ parts: [LogPart]) -> LogPage {
    // What one that was cut has not told yet may be older than what others have told.
    let horizon = parts.filter(\.hasMore).compactMap(\.lines.last?.time).min()
    let all = parts.indices.flatMap { part in parts[part].lines.map { (part: part, line: $0) } }
    let sorted = all.enumerated().sorted {
      ($0.element.line.time, $0.offset) < ($1.element.line.time, $1.offset)
    }
    var page = LogPage(lines: [], marks: [], hasMore: parts.contains(where: \.hasMore))
    var marks = parts.map(\.start)
    var byteCount = 0
    for (_, (part, line)) in sorted {
      if let horizon, line.time > horizon { break }
      byteCount += line.text.utf8.count
      if byteCount > byteLimit, !page.lines.isEmpty {
        page.hasMore = true
        break
      }
      page.lines.append(.init(node: parts[part].start.node, text: line.text))
      marks[part] = line.end
    }
    page.marks = marks
    return page
  }
}

/// Lines of one node's log, from some place on.
private struct LogPart {
  struct Line {
    let text: String
    /// When it was written, or a line before it, where the clock was set back.
    let time: Timestamp
    let end: LogMark
  }

  /// Where it begins.
  let start: LogMark
  private(set) var lines: [Line] = []
  private(set) var hasMore = false

  /// - Returns: `nil` where there is no log.
  init?(
    of node: String, _ files: [LogFile], behind mark: LogMark?, _ request: LogRequest,
    byteLimit: Int
  ) {
    guard !files.isEmpty else { return nil }
    func place(_ index: Int, _ offset: Int) -> LogMark {
      LogMark(node: node, file: files[index].identity.text, offset: offset)
    }
    var (index, offset) =
      mark.map { Self.place(of: $0, in: files) } ?? Self.beginning(of: files, node, request)
    start = place(index, offset)
    var left = byteLimit
    var time = Timestamp(milliseconds: .min)
    func add(_ bytes: ArraySlice<UInt8>, endingAt end: Int) {
      let text = String(decoding: bytes, as: UTF8.self)
      time = max(time, LogEntry(node: node, line: text)?.time ?? time)
      lines.append(Line(text: text, time: time, end: place(index, end)))
    }
    while true {
      let bytes = files[index].read(at: offset, limit: left)
      var rest = bytes[...]
      while let end = rest.firstIndex(of: 0x0A) {
        add(rest[..<end], endingAt: offset + end + 1)
        rest = rest[(end + 1)...]
      }
      let isCut = bytes.count == left
      // A line without an end: as long as may be told at once, or the last one of a file that is put aside.
      if !rest.isEmpty, isCut ? lines.isEmpty : index + 1 < files.count {
        add(rest, endingAt: offset + bytes.count)
      }
      left -= bytes.count
      if isCut {
        hasMore = true
        return
      }
      guard index + 1 < files.count else { return }
      (index, offset) = (index + 1, 0)
    }
  }

  /// The file and the place in it. Where it was removed meanwhile, the rest of it is lost.
  private static func place(of mark: LogMark, in files: [LogFile]) -> (Int, Int) {
    guard let index = files.firstIndex(where: { $0.identity.text == mark.file }),
      mark.offset == 0
        || mark.offset > 0 && files[index].read(at: mark.offset - 1, limit: 1).count == 1
    else { return (0, 0) }
    return (index, mark.offset)
  }

  /// Where the last lines begin that are wanted.
  private static func beginning(
    of files: [LogFile], _ node: String, _ request: LogRequest
  ) -> (Int, Int) {
    guard request.lines != nil || request.since != nil else { return (0, 0) }
    var end: (Int, Int)?
    var first: (Int, Int)?
    var count = 0
    // From the newest file back, as far as they are wanted: there may be many.
    for index in files.indices.reversed() {
      let (lines, fileEnd) = Self.lines(of: files[index], node)
      end = end ?? (index, fileEnd)
      var wanted = lines[...]
      if let since = request.since { wanted = wanted.drop { $0.time.milliseconds < since } }
      if let limit = request.lines { wanted = wanted.suffix(max(0, limit - count)) }
      count += wanted.count
      first = wanted.first.map { (index, $0.start) } ?? first
      if wanted.count < lines.count { break }
    }
    return first ?? end ?? (0, 0)
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
