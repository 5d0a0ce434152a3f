import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

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
