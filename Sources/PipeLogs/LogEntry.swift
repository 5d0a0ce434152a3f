import PipeSupport
import PipeWire

/// Where a log line came from.
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

  /// What an orchestrator of another host tells; a line that is not of our form has no time.
  package init(_ line: LogPage.Line) {
    self =
      LogEntry(node: line.node, line: line.text)
      ?? LogEntry(
        node: line.node, time: Timestamp(milliseconds: 0), stream: .out, text: line.text)
  }

  /// Reads a line of a log file: `2026-11-20T09:00:00.123Z out text`.
  package init?(node: String, line: String) {
    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, let time = Timestamp(parts[0]),
      let stream = LogStream(rawValue: String(parts[1]))
    else { return nil }
    self.init(node: node, time: time, stream: stream, text: String(parts[2]))
  }
}
