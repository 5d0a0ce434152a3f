import PipeRuntime
import PipeSupervision

/// What the soak does to nodes from outside.
package enum FaultKind: String, CaseIterable {
  case kill = "kill -9 of a node"
  case killTwo = "kill -9 of two nodes at once"
  case pause = "SIGSTOP, then SIGCONT"
  case longPause = "SIGSTOP, then SIGCONT when others have asked"
  case hang = "SIGSTOP until found hung"
  case restart = "restart in order"

  /// How often it is chosen, beside others.
  var weight: Int {
    switch self {
    case .kill: 12
    case .pause: 5
    case .killTwo: 3
    case .restart, .longPause: 2
    case .hang: 1
    }
  }

  /// How long a process stands still. Unit: microseconds.
  var pause: ClosedRange<Int> {
    // Participants ask for the end of what they have promised after 200 ms.
    self == .longPause ? 220_000...350_000 : 500...30_000
  }
}

/// The faults that have struck.
package struct FaultCounts: Equatable {
  package var kinds: [FaultKind: Int] = [:]
  /// By failpoint and action: `crash`, `stop`…
  package var failpoints: [Failpoint: [String: Int]] = [:]
  /// Nodes that the orchestrator found hung and killed.
  package var foundHung = 0

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
  }

  /// Counts a line of a node's log that tells of a fault.
  package mutating func take(_ entry: LogEntry) {
    if entry.stream == .note, entry.text.hasPrefix("killed: hung") { foundHung += 1 }
    guard entry.stream == .err, entry.text.hasPrefix("failpoint ") else { return }
    // failpoint record.after: crash (hit 3)
    let words = entry.text.split(separator: " ")
    guard words.count == 5, let point = Failpoint(rawValue: String(words[1].dropLast())) else {
      return
    }
    let action = words[2].prefix { $0 != ":" }
    failpoints[point, default: [:]][String(action), default: 0] += 1
  }

  /// What never struck, in words.
  package func missing(durability: Durability, of topic: SoakTopic) -> [String] {
    var missing = topic.kinds.filter { kinds[$0] == nil }.map(\.rawValue)
    // Without a record there is nothing to fail or to restore.
    if durability != .volatile {
      missing += topic.points.filter { failpoints[$0] == nil }.map(\.rawValue)
      if foundHung == 0 { missing.append("found hung") }
    }
    return missing
  }

  /// A table for a person to read.
  package func table(of topic: SoakTopic) -> String {
    var lines = topic.kinds.map { line($0.rawValue, kinds[$0] ?? 0, "") }
    lines.append(line("  of all, found hung and killed", foundHung, ""))
    for point in Failpoint.allCases where topic.points.contains(point) || failpoints[point] != nil {
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
