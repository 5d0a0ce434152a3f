import PipeSupport
import PipeWire

/// The source of a log line.
package enum LogStream: String, Hashable, Sendable, CaseIterable {
  /// The node's stdout.
  case out
  /// The node's stderr.
  case err
  /// The supervisor, about the node.
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

  /// The line as written in a log.
  package var line: String { "\(time.description) \(stream.rawValue) \(text)" }

  /// Creates an entry from a line that an orchestrator on another host has read. A line in another
  /// format has no time.
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

/// The order of lines of several logs: by time, across steps of the clock.
package enum LogOrder {
  /// The beginning of the note that the orchestrator writes to every log when the clock of its host
  /// was set back.
  package static let clockNote = "the clock was set back by "

  private struct Key: Comparable {
    /// The number of times that the clock was set back after the line, negated: all logs end in the same era.
    var era: Int
    /// The time of the line, or the latest time of a line before it in its log.
    var time: Timestamp
    var index: Int

    static func < (left: Key, right: Key) -> Bool {
      (left.era, left.time, left.index) < (right.era, right.time, right.index)
    }
  }

  /// Returns the order of the entries of several logs, by their indices. The entries of each log
  /// keep their order.
  static func order(of entries: [LogEntry]) -> [Int] {
    var steps: [String: Int] = [:]
    for entry in entries where entry.isClockNote { steps[entry.node, default: 0] += 1 }
    var latest: [String: Timestamp] = [:]
    let keys = entries.enumerated().map { index, entry in
      if entry.isClockNote {
        steps[entry.node, default: 0] -= 1
        latest[entry.node] = nil
      }
      let time = max(entry.time, latest[entry.node] ?? entry.time)
      latest[entry.node] = time
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

/// Splits a stream of bytes into lines of text, whatever the bytes are.
///
/// Invalid UTF-8 becomes replacement characters. A line over the limit is cut into several, between
/// characters.
package struct LogLineSplitter: Sendable {
  /// The longest line. Unit: bytes. Default: 65536.
  package let limit: Int
  private var partial: [UInt8] = []

  package init(limit: Int = 65536) { self.limit = max(limit, 4) }

  /// Appends the next bytes and returns the lines that they complete, without line ends.
  package mutating func append(_ bytes: some Collection<UInt8>) -> [String] {
    var lines: [String] = []
    var rest = bytes[...]
    while let end = rest.firstIndex(of: 0x0A) {
      partial.append(contentsOf: rest[..<end])
      rest = rest[rest.index(after: end)...]
      cutPartial(into: &lines)
      if partial.last == 0x0D { partial.removeLast() }
      lines.append(String(decoding: partial, as: UTF8.self))
      partial.removeAll(keepingCapacity: true)
    }
    partial.append(contentsOf: rest)
    cutPartial(into: &lines)
    return lines
  }

  /// Returns the last line, if the stream ended without a line end.
  package mutating func finish() -> String? {
    guard !partial.isEmpty else { return nil }
    defer { partial.removeAll() }
    return String(decoding: partial, as: UTF8.self)
  }

  private mutating func cutPartial(into lines: inout [String]) {
    var start = 0
    while partial.count - start > limit {
      var end = start + limit
      // Goes back to the first byte of a character, which is at most three bytes away in valid text.
      for step in 0..<4 where partial[end - step] & 0xC0 != 0x80 {
        end -= step
        break
      }
      lines.append(String(decoding: partial[start..<end], as: UTF8.self))
      start = end
    }
    if start > 0 { partial.removeFirst(start) }
  }
}
