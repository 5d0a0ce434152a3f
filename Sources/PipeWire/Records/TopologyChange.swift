/// The changes that a new topology file makes to a running topology, by node.
package struct TopologyChange: Codable, Hashable, Sendable {
  /// A property of a node that can change without a new process.
  package enum Aspect: String, Codable, Hashable, Sendable, CaseIterable {
    case restart = "restart policy"
    case timeouts
    case required
    case dependencies = "depends_on"
    case logs
    /// The node has more outbound pipes.
    case outs = "pipes that lead from it"
  }

  /// The reason why a node gets a new process.
  package enum Reason: Codable, Hashable, Sendable {
    case launch(ProcessRecord.Difference)
    /// The node is a monitor, and the list of watched nodes has changed.
    case watched
    /// The node is an embedded coordinator, and its carrier node restarts.
    case host(String)
    /// The node has failed, and may succeed with the new values of these properties.
    case supervision([Aspect])
  }

  /// The effect of the change on a node.
  package enum Fate: Codable, Hashable, Sendable {
    case starts
    case stops
    case restarts(Reason)
    /// The node starts again after it had failed or had ended by itself.
    case startsAgain(Reason)
    /// The node was stopped manually, and changes only when it is started manually.
    case staysStopped(Reason)
    /// The node keeps its process: only these properties have changed.
    case updatedInPlace([Aspect])
    case unchanged
  }

  /// A node and the effect of the change on this node.
  package struct Entry: Codable, Hashable, Sendable {
    package var node: String
    package var fate: Fate

    package init(_ node: String, _ fate: Fate) {
      self.node = node
      self.fate = fate
    }
  }

  /// The nodes in the order of the new file, followed by the removed nodes.
  package let entries: [Entry]

  package init(entries: [Entry]) { self.entries = entries }

  /// Whether the change affects no node.
  package var isEmpty: Bool { entries.allSatisfy { $0.fate == .unchanged } }

  /// The nodes whose future process differs from their last process: they restart, start again
  /// after they had ended, or stay stopped until they are started manually.
  package var replacedNodes: Set<String> {
    Set(
      entries.filter { entry in
        switch entry.fate {
        case .restarts, .startsAgain, .staysStopped: true
        case .starts, .stops, .updatedInPlace, .unchanged: false
        }
      }.map(\.node))
  }

  /// The nodes that are started, in the order of the new file.
  package var startedNodes: [String] {
    entries.filter { entry in
      switch entry.fate {
      case .starts, .restarts, .startsAgain: true
      case .stops, .staysStopped, .updatedInPlace, .unchanged: false
      }
    }.map(\.node)
  }
}

extension TopologyChange {
  /// The change as text: `1 node added, 2 restarted, 3 unchanged`, or `nothing to change`.
  package var summary: String {
    guard !isEmpty else { return "nothing to change" }
    let parts = [
      ("added", count { $0 == .starts }), ("removed", count { $0 == .stops }),
      ("restarted", count { $0.restartReason != nil }),
      ("updated", count { $0.isTakenOver }), ("unchanged", count { $0 == .unchanged }),
    ].filter { $0.1 > 0 }
    return parts.enumerated().map { index, part in
      let noun = index > 0 ? "" : part.1 == 1 ? " node" : " nodes"
      return "\(part.1)\(noun) \(part.0)"
    }.joined(separator: ", ")
  }

  /// One line for each affected node: `~ door   restarts: its pipes were changed`.
  package var entryLines: [String] {
    let shown = entries.filter { $0.fate != .unchanged }
    let width = shown.map(\.node.count).max() ?? 0
    return shown.map { entry in
      let gap = String(repeating: " ", count: width - entry.node.count + 2)
      return "\(entry.fate.symbol) \(entry.node)\(gap)\(entry.fate)"
    }
  }

  private func count(_ accepts: (Fate) -> Bool) -> Int { entries.count { accepts($0.fate) } }
}

extension TopologyChange.Fate: CustomStringConvertible {
  fileprivate var symbol: String {
    switch self {
    case .starts: "+"
    case .stops: "-"
    case .restarts, .startsAgain: "~"
    case .staysStopped, .updatedInPlace, .unchanged: "="
    }
  }

  fileprivate var restartReason: TopologyChange.Reason? {
    switch self {
    case .restarts(let reason), .startsAgain(let reason): reason
    case .starts, .stops, .staysStopped, .updatedInPlace, .unchanged: nil
    }
  }

  fileprivate var isTakenOver: Bool {
    switch self {
    case .staysStopped, .updatedInPlace: true
    case .starts, .stops, .restarts, .startsAgain, .unchanged: false
    }
  }

  package var description: String {
    switch self {
    case .starts: "starts"
    case .stops: "stops"
    case .restarts(let reason): "restarts: \(reason)"
    case .startsAgain(let reason): "starts again: \(reason)"
    case .staysStopped(let reason): "stays stopped until started manually: \(reason)"
    case .updatedInPlace(let aspects): "\(aspects.text), updated without a restart"
    case .unchanged: "unchanged"
    }
  }
}

extension TopologyChange.Reason: CustomStringConvertible {
  package var description: String {
    switch self {
    case .launch(let difference): "\(difference)"
    case .watched: "the watched nodes were changed"
    case .host(let node): "carrier node '\(node)' restarts"
    case .supervision(let aspects): aspects.text
    }
  }
}

extension [TopologyChange.Aspect] {
  /// The properties as text: `restart policy and timeouts differ`.
  package var text: String {
    let names = map(\.rawValue)
    guard let last = names.last, names.count > 1 else {
      return (names.first ?? "nothing")
        + ([[.timeouts], [.logs], [.outs]].contains(self) ? " differ" : " differs")
    }
    return names.dropLast().joined(separator: ", ") + " and \(last) differ"
  }
}
