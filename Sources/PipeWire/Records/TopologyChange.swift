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
