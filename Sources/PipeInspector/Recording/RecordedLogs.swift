import PipeJournal
import PipeClient
import PipeMachines
import PipeSupport
import PipeWire

/// What the nodes of a topology write, and what the orchestrator notes of them, read from their logs as they grow.
package struct RecordedLogs {
  private var logs: TopologyLogs
  private var isFirst = true

  /// Of one look: what is more is counted, so that a node that writes much costs no more. Unit: lines.
  package static let limit = 500
  /// Longer lines are cut. Unit: bytes.
  package static let lineByteCount = 4 << 10
  /// Of a node that had written before, the last lines.
  static let firstLines = 100
  /// Of all nodes together.
  private static let firstLimit = 5_000

  package init(_ logs: TopologyLogs) { self.logs = logs }

  /// Goes on from the same position through another client of the topology.
  mutating func go(on client: TopologyClient) { logs = logs.going(on: client) }

  /// What was written since the last look, in the order of its times; at the first one, the last lines of each node.
  package mutating func next() async throws -> [JSONValue] {
    var new: [LogEntry] = []
    while true {
      let (entries, hasMore) = try await logs.next(lines: Self.firstLines)
      new += entries
      if !hasMore || new.count > Self.firstLimit { break }
    }
    let most = isFirst ? Self.firstLimit : Self.limit
    isFirst = false
    let skipped = max(0, new.count - most)
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
    // Between characters, which have four bytes at most.
    for count in stride(from: lineByteCount, to: lineByteCount - 4, by: -1) {
      if let beginning = String(text.utf8.prefix(count)) { return beginning }
    }
    return ""
  }
}

/// What nodes have recorded before anybody looked: the last states in their journals.
package enum RecordedPast {
  /// The most that is read of one journal. Unit: records.
  package static let limit = 200
  /// For all journals together: who opens a page waits for it.
  private static let patience: Duration = .seconds(2)

  /// Like steps, in the order of their times, without the events that led to them: a record is of the steps of one
  /// burst, `steps` of them. Of a journal that cannot be read nothing is told: its node says why.
  package static func steps(of nodes: [NodeInformation]) -> [JSONValue] {
    let deadline = ContinuousClock.now + patience
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
