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
