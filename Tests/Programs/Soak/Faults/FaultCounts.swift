import PipeClient
import PipeRuntime
import PipeSupervision

/// Counts of the faults that have struck, and of their consequences.
package struct FaultCounts: Equatable {
  package var kinds: [FaultKind: Int] = [:]
  /// For each failpoint, the number of times that each action struck, such as `crash` or `stop`.
  package var failpoints: [Failpoint: [String: Int]] = [:]
  /// The number of nodes that the orchestrator killed because they hung.
  package var foundHung = 0
  /// The number of processes that an orchestrator adopted from its predecessor.
  package var adopted = 0
  /// The number of processes that an orchestrator replaced instead of adopting: monitors, and nodes
  /// that were changed in the topology file.
  package var replaced = 0
  /// The number of connections that were made again after silence, because a namesake may have
  /// taken the routing id.
  package var reclaimedIDs = 0

  package init() {}

  package var total: Int {
    kinds.values.reduce(0, +) + failpoints.values.reduce(0) { $0 + $1.values.reduce(0, +) }
  }

  package static func += (left: inout FaultCounts, right: FaultCounts) {
    left.kinds.merge(right.kinds, uniquingKeysWith: +)
    for (point, actions) in right.failpoints {
      left.failpoints[point, default: [:]].merge(actions, uniquingKeysWith: +)
    }
    left.foundHung += right.foundHung
    left.adopted += right.adopted
    left.replaced += right.replaced
    left.reclaimedIDs += right.reclaimedIDs
  }

  /// Counts a line of a node's log, if the line reports a fault or a consequence of a fault.
  package mutating func add(_ entry: LogEntry) {
    guard entry.node != RoundLog.orchestrator else { return }
    if entry.stream == .note {
      if entry.text.hasPrefix("killed: hung") { foundHung += 1 }
      if entry.text.hasPrefix("adopted (") { adopted += 1 }
      if entry.text.hasPrefix("not adopted: ") { replaced += 1 }
    }
    guard entry.stream == .err else { return }
    if entry.text.contains(" with the same routing id, ") { reclaimedIDs += 1 }
    guard entry.text.hasPrefix("failpoint ") else { return }
    // Example: failpoint record.after: crash (hit 3)
    let words = entry.text.split(separator: " ")
    guard words.count == 5, let point = Failpoint(rawValue: String(words[1].dropLast())) else {
      return
    }
    let action = words[2].prefix { $0 != ":" }
    failpoints[point, default: [:]][String(action), default: 0] += 1
  }

  /// Returns the names of the faults that never struck.
  package func missing(of choice: FaultChoice) -> [String] {
    var missing = choice.kinds.filter { kinds[$0] == nil }.map(\.rawValue)
    if adopted == 0 { missing.append("adopted") }
    if replaced == 0 { missing.append("not adopted and replaced") }
    if reclaimedIDs == 0 { missing.append("names taken back") }
    // Without a journal, recording cannot fail, and nothing can be restored.
    if choice.durability != .volatile {
      missing += choice.topic.failpointsToCover.filter { failpoints[$0] == nil }.map(\.rawValue)
      if foundHung == 0 { missing.append("found hung") }
    }
    return missing
  }

  /// Returns the counts as a table for people.
  package func table(of choice: FaultChoice) -> String {
    var lines = choice.kinds.map { line($0.rawValue, kinds[$0] ?? 0, "") }
    lines.append(line("  of all, found hung and killed", foundHung, ""))
    lines.append(line("  processes adopted by the next", adopted, ""))
    lines.append(line("  processes replaced by it", replaced, ""))
    lines.append(line("  names taken back from namesakes", reclaimedIDs, ""))
    for point in Failpoint.allCases
    where choice.topic.failpointsToCover.contains(point) || failpoints[point] != nil {
      let actions = failpoints[point] ?? [:]
      let detail = actions.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
      lines.append(
        line(
          "failpoint " + point.rawValue, actions.values.reduce(0, +),
          detail.joined(separator: ", ")))
    }
    return lines.joined(separator: "\n")
  }

  private func line(_ name: String, _ count: Int, _ detail: String) -> String {
    let number = String(count)
    let gap = String(repeating: " ", count: max(1, 40 - name.count - number.count))
    return "  \(name)\(gap)\(number)" + (detail.isEmpty ? "" : "  \(detail)")
  }
}
