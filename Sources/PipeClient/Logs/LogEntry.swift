import PipeSupport
import PipeWire

/// The source of a log line.
package enum LogStream: String, Hashable, Sendable, CaseIterable {
  /// The node's stdout.
  case out
  /// The node's stderr.
  case err
  /// The orchestrator, which writes notes about the node.
  case note
}

/// One line of a node's log.
package struct LogEntry: Hashable, Sendable {
  package var node: String
  package var time: Timestamp
  package var stream: LogStream
  package var text: String

  package init(node: String, time: Timestamp, stream: LogStream, text: String) {
    self.node = node
    self.time = time
    self.stream = stream
    self.text = text
  }

  /// The line in the format of a log file.
  package var line: String { "\(time.description) \(stream.rawValue) \(text)" }

  /// Creates an entry from a line that an orchestrator on another host has read. If the line has
  /// another format, the entry has the time 0.
  package init(_ line: LogPage.Line) {
    self =
      LogEntry(node: line.node, line: line.text)
      ?? LogEntry(
        node: line.node, time: Timestamp(milliseconds: 0), stream: .out, text: line.text)
  }

  /// Parses a line of a log file: `2026-11-20T09:00:00.123Z out text`.
  package init?(node: String, line: String) {
    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, let time = Timestamp(parts[0]),
      let stream = LogStream(rawValue: String(parts[1]))
    else { return nil }
    self.init(node: node, time: time, stream: stream, text: String(parts[2]))
  }
}

/// The order of the lines of several logs: by time, but correct even if the clock was set back.
package enum LogOrder {
  /// The first words of a note that the orchestrator writes to every log when its host's clock was
  /// set back.
  package static let clockNote = "the clock was set back by "

  private struct Key: Comparable {
    /// The negated number of clock notes that follow the line in its log. So the last part of every
    /// log has the era 0, and the part that ends at the last clock note has the era -1.
    var era: Int
    /// The latest time among this line and all earlier lines that are in the same log and have the
    /// same era.
    var time: Timestamp
    var index: Int

    static func < (left: Key, right: Key) -> Bool {
      (left.era, left.time, left.index) < (right.era, right.time, right.index)
    }
  }

  /// Returns the indices of log entries, in order of time. The entries may be from several logs.
  /// Entries of the same log keep their order.
  static func order(of entries: [LogEntry]) -> [Int] {
    var steps: [String: Int] = [:]
    for entry in entries where entry.isClockNote { steps[entry.node, default: 0] += 1 }
    var latestTimes: [String: Timestamp] = [:]
    let keys = entries.enumerated().map { index, entry in
      if entry.isClockNote {
        steps[entry.node, default: 0] -= 1
        latestTimes[entry.node] = nil
      }
      let time = max(entry.time, latestTimes[entry.node] ?? entry.time)
      latestTimes[entry.node] = time
      return Key(era: -(steps[entry.node] ?? 0), time: time, index: index)
    }
    return keys.sorted().map(\.index)
  }
}

extension LogEntry {
  fileprivate var isClockNote: Bool {
    stream == .note && text.hasPrefix(LogOrder.clockNote)
  }
}

/// Splits a stream of arbitrary bytes into lines of text.
///
/// Invalid UTF-8 becomes replacement characters. A line that is longer than the limit is cut into
/// several lines; a cut is never within a character.
package struct LogLineSplitter: Sendable {
  /// The maximum length of a line. Unit: bytes. Default: 65536.
  package let maximumLineLength: Int
  private var partialLine: [UInt8] = []

  package init(limit: Int = 65536) { self.maximumLineLength = max(limit, 4) }

  /// Appends the next bytes and returns the lines that they complete, without line ends.
  package mutating func append(_ bytes: some Collection<UInt8>) -> [String] {
    var lines: [String] = []
    var rest = bytes[...]
    while let end = rest.firstIndex(of: 0x0A) {
      partialLine.append(contentsOf: rest[..<end])
      rest = rest[rest.index(after: end)...]
      cutPartial(into: &lines)
      if partialLine.last == 0x0D { partialLine.removeLast() }
      lines.append(String(decoding: partialLine, as: UTF8.self))
      partialLine.removeAll(keepingCapacity: true)
    }
    partialLine.append(contentsOf: rest)
    cutPartial(into: &lines)
    return lines
  }

  /// Returns the last line, if the stream ended without a line end. Call this at the end of the
  /// stream.
  package mutating func finish() -> String? {
    guard !partialLine.isEmpty else { return nil }
    defer { partialLine.removeAll() }
    return String(decoding: partialLine, as: UTF8.self)
  }

  private mutating func cutPartial(into lines: inout [String]) {
    var start = 0
    while partialLine.count - start > maximumLineLength {
      var end = start + maximumLineLength
      // Goes back to the first byte of a character. In valid UTF-8, this byte is at most three
      // bytes away.
      for step in 0..<4 where partialLine[end - step] & 0xC0 != 0x80 {
        end -= step
        break
      }
      lines.append(String(decoding: partialLine[start..<end], as: UTF8.self))
      start = end
    }
    if start > 0 { partialLine.removeFirst(start) }
  }
}
