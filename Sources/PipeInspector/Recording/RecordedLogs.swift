import PipeJournal
import PipeClient
import PipeMachines
import PipeSupport
import PipeWire

/// Reads the log lines of nodes, and the orchestrator's notes about nodes, while the logs grow.
package struct RecordedLogs {
  private var logs: TopologyLogs
  private var isFirst = true

  /// The maximum number of lines in one read. Further lines are only counted, so that reading does
  /// not take longer if a node writes very many lines.
  package static let limit = 500
  /// The maximum length of a line. Longer lines are cut. Unit: bytes.
  package static let lineByteCount = 4 << 10
  /// The number of each node's existing lines that the first read returns.
  static let initialLineCount = 100
  /// The maximum number of existing lines that the first read returns for all nodes together.
  private static let initialLineLimit = 5_000

  package init(_ logs: TopologyLogs) { self.logs = logs }

  /// Continues to read at the same position, through another connection to the topology.
  mutating func continueReading(on client: TopologyClient) { logs = logs.continued(on: client) }

  /// Returns the lines that were added since the last read, in order of time. The first read
  /// returns the last lines of each node.
  package mutating func next() async throws -> [JSONValue] {
    var new: [LogEntry] = []
    while true {
      let (entries, hasMore) = try await logs.next(lines: Self.initialLineCount)
      new += entries
      if !hasMore || new.count > Self.initialLineLimit { break }
    }
    let lineLimit = isFirst ? Self.initialLineLimit : Self.limit
    isFirst = false
    let skipped = max(0, new.count - lineLimit)
    let lines = new.dropFirst(skipped).map(Self.record)
    guard skipped > 0 else { return lines }
    return [
      [
        "skipped": .integer(Int64(skipped)),
        "time": .integer(new[skipped - 1].time.nanoseconds),
      ]
    ] + lines
  }

  private static func record(_ entry: LogEntry) -> JSONValue {
    let byteCount = entry.text.utf8.count
    return [
      "node": .string(entry.node), "time": .integer(entry.time.nanoseconds),
      "stream": .string(entry.stream.rawValue),
      "text": .string(byteCount > lineByteCount ? beginning(of: entry.text) : entry.text),
      "large": byteCount > lineByteCount ? .integer(Int64(byteCount)) : .null,
    ]
  }

  private static func beginning(of text: String) -> String {
    // Does not cut within a character. In UTF-8, a character has at most four bytes.
    for count in stride(from: lineByteCount, to: lineByteCount - 4, by: -1) {
      if let beginning = String(text.utf8.prefix(count)) { return beginning }
    }
    return ""
  }
}

/// The steps that nodes took before the recording began, read from their journals.
package enum RecordedPast {
  /// The maximum number of records to read from one journal.
  package static let limit = 200
  /// The maximum time for reading all journals. It is short, because the page waits.
  private static let timeLimit: Duration = .seconds(2)

  /// Returns the steps in order of time, without their events. One journal record can stand for
  /// several steps; `steps` is their number. Journals that cannot be read are skipped, because
  /// their nodes report the reason.
  package static func steps(of nodes: [NodeInformation]) -> [JSONValue] {
    let deadline = ContinuousClock.now + timeLimit
    var found: [(time: Int64, step: JSONValue)] = []
    for node in nodes where ContinuousClock.now < deadline {
      guard node.kind == .machine, let path = node.journal,
        let records = try? JournalReader(path, node: node.name).snapshot(limit: limit).records
      else { continue }
      for record in records.suffix(limit) {
        found.append(
          (
            record.time,
            [
              "node": .string(node.name), "incarnation": .count(record.incarnation),
              "version": .count(record.version), "time": .integer(record.time),
              "cause": .string(record.cause), "state": record.state,
              "recorded": .count(record.stepCount),
            ]
          ))
      }
    }
    return found.sorted { $0.time < $1.time }.map(\.step)
  }
}
