/// What a new file changes in a topology that runs, node by node; a pure value.
package struct TopologyChange: Codable, Hashable, Sendable {
  /// What differs that needs no other process.
  package enum Aspect: String, Codable, Hashable, Sendable, CaseIterable {
    case restart = "restart policy"
    case timeouts
    case required
    case dependencies = "depends_on"
    case logs
    /// More pipes lead from it.
    case outs = "pipes that lead from it"
  }

  /// Why a node gets another process.
  package enum Reason: Codable, Hashable, Sendable {
    case launch(ProcessRecord.Difference)
    /// A monitor is to watch other nodes.
    case watched
    /// The node restarts in whose process it lives.
    case host(String)
    /// It has failed, and may do better under another supervision.
    case supervision([Aspect])
  }

  /// What becomes of a node.
  package enum Fate: Codable, Hashable, Sendable {
    case starts
    case stops
    case restarts(Reason)
    /// It had failed, or ended by itself.
    case startsAgain(Reason)
    /// It was stopped by hand, and so its next process is another one only when it is started by hand.
    case staysStopped(Reason)
    /// Only what needs no other process differs.
    case takenOver([Aspect])
    case unchanged
  }

  /// A node and what becomes of it.
  package struct Entry: Codable, Hashable, Sendable {
    package var node: String
    package var fate: Fate

    package init(_ node: String, _ fate: Fate) {
      self.node = node
      self.fate = fate
    }
  }

  /// The nodes in the order of the new file, and then those that it has no more.
  package let entries: [Entry]

  package init(entries: [Entry]) { self.entries = entries }

  /// Whether no node differs.
  package var isEmpty: Bool { entries.allSatisfy { $0.fate == .unchanged } }

  /// Those whose next process is another one than their last.
  package var replaced: Set<String> {
    Set(
      entries.filter { entry in
        switch entry.fate {
        case .restarts, .startsAgain, .staysStopped: true
        case .starts, .stops, .takenOver, .unchanged: false
        }
      }.map(\.node))
  }

  /// Those that are started, in the order of the new file.
  package var started: [String] {
    entries.filter { entry in
      switch entry.fate {
      case .starts, .restarts, .startsAgain: true
      case .stops, .staysStopped, .takenOver, .unchanged: false
      }
    }.map(\.node)
  }
}

extension TopologyChange {
  /// `1 node added, 2 restarted, 3 unchanged`; `nothing to change` where no node differs.
  package var summary: String {
    guard !isEmpty else { return "nothing to change" }
    let parts = [
      ("added", count { $0 == .starts }), ("removed", count { $0 == .stops }),
      ("restarted", count { $0.restartReason != nil }),
      ("taken over", count { $0.isTakenOver }), ("unchanged", count { $0 == .unchanged }),
    ].filter { $0.1 > 0 }
    return parts.enumerated().map { index, part in
      let noun = index > 0 ? "" : part.1 == 1 ? " node" : " nodes"
      return "\(part.1)\(noun) \(part.0)"
    }.joined(separator: ", ")
  }

  /// A line for each node that differs: `~ door   restarts: its pipes were changed`.
  package var lines: [String] {
    let shown = entries.filter { $0.fate != .unchanged }
    let width = shown.map(\.node.count).max() ?? 0
    return shown.map { entry in
      let gap = String(repeating: " ", count: width - entry.node.count + 2)
      return "\(entry.fate.mark) \(entry.node)\(gap)\(entry.fate)"
    }
  }

  private func count(_ accepts: (Fate) -> Bool) -> Int { entries.count { accepts($0.fate) } }
}

extension TopologyChange.Fate: CustomStringConvertible {
  fileprivate var mark: String {
    switch self {
    case .starts: "+"
    case .stops: "-"
    case .restarts, .startsAgain: "~"
    case .staysStopped, .takenOver, .unchanged: "="
    }
  }

  fileprivate var restartReason: TopologyChange.Reason? {
    switch self {
    case .restarts(let reason), .startsAgain(let reason): reason
    case .starts, .stops, .staysStopped, .takenOver, .unchanged: nil
    }
  }

  fileprivate var isTakenOver: Bool {
    switch self {
    case .staysStopped, .takenOver: true
    case .starts, .stops, .restarts, .startsAgain, .unchanged: false
    }
  }

  package var description: String {
    switch self {
    case .starts: "starts"
    case .stops: "stops"
    case .restarts(let reason): "restarts: \(reason)"
    case .startsAgain(let reason): "starts again: \(reason)"
    case .staysStopped(let reason): "stays stopped, and starts anew by hand: \(reason)"
    case .takenOver(let aspects): "\(aspects.text), taken over without a restart"
    case .unchanged: "unchanged"
    }
  }
}

extension TopologyChange.Reason: CustomStringConvertible {
  package var description: String {
    switch self {
    case .launch(let difference): "\(difference)"
    case .watched: "what it watches was changed"
    case .host(let node): "it lives within '\(node)', which does"
    case .supervision(let aspects): aspects.text
    }
  }
}

extension [TopologyChange.Aspect] {
  /// `restart policy and timeouts differ`
  package var text: String {
    let names = map(\.rawValue)
    guard let last = names.last, names.count > 1 else {
      return (names.first ?? "nothing")
        + ([[.timeouts], [.logs], [.outs]].contains(self) ? " differ" : " differs")
    }
    return names.dropLast().joined(separator: ", ") + " and \(last) differ"
  }
}
