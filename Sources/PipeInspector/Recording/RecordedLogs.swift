import PipeJournal
import PipeClient
import PipeMachines
import PipeSupport
import PipeWire

/// The log lines of the nodes and the orchestrator's notes about them, read from their logs as they
/// grow.
package struct RecordedLogs {
  private var logs: TopologyLogs
  private var isFirst = true

  /// The maximum number of lines per read. Further lines are only counted, so that a node that
  /// writes much costs no more.
  package static let limit = 500
  /// The maximum length of a line. Longer lines are cut. Unit: bytes.
  package static let lineByteCount = 4 << 10
  /// The number of earlier lines to read for each node at the start.
  static let initialLineCount = 100
  /// The maximum number of earlier lines for all nodes together.
  private static let initialLineLimit = 5_000

  package init(_ logs: TopologyLogs) { self.logs = logs }

  /// Continues at the same position through another client of the topology.
  mutating func continueReading(on client: TopologyClient) { logs = logs.continued(on: client) }

  /// Returns the lines since the last read, in order of time; at the first read, the last lines of
  /// each node.
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
    // Cuts between characters, which have at most four bytes in UTF-8.
    for count in stride(from: lineByteCount, to: lineByteCount - 4, by: -1) {
      if let beginning = String(text.utf8.prefix(count)) { return beginning }
    }
    return ""
  }
}

/// The past of nodes from before the recording: the last states in their journals.
package enum RecordedPast {
  /// The maximum number of records to read from one journal.
  package static let limit = 200
  /// The longest time for all journals together, because the page waits for them.
  private static let timeLimit: Duration = .seconds(2)

  /// Returns steps in order of time, without their events: a journal record covers `steps` steps of
  /// one burst. Journals that cannot be read are skipped, because the node itself reports the
  /// reason.
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
              "recorded": .count(record.steps),
            ]
          ))
      }
    }
    return found.sorted { $0.time < $1.time }.map(\.step)
  }
}
