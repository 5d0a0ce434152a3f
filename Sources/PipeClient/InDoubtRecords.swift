import PipeMachines
import PipeWire

/// Marks the states of composites with the transactions in doubt of their nodes.
///
/// A doubt that ends with a commit stays until the composite shows the resulting state: the two
/// come through different feeds, in any order. If only the latest states are reported, the
/// resulting state may never be seen, so the doubt ends at once.
package struct InDoubtRecords: Sendable {
  private let shown: Set<String>
  private let receivesEveryState: Bool
  private var composites: [String: Composite] = [:]
  /// The last doubt of each node, and the node's version at that time.
  private var doubts: [String: (doubt: InDoubtTransaction, version: UInt64)] = [:]

  fileprivate struct Composite {
    /// The nodes of the composite.
    let nodes: [String]
    var last: StateChange?
    var shownDoubts: [String: InDoubtTransaction] = [:]
    /// Nodes that have moved, while the composite has not shown the move yet.
    var moved: Set<String> = []
    /// Nodes whose move the composite has shown, according to the cause of its state.
    var nodesUpToDate: Set<String> = []

    var stateWithDoubts: StateChange? {
      guard var change = last else { return nil }
      change.doubts = nodes.compactMap { shownDoubts[$0] }
      return change
    }
  }

  /// - Parameters:
  ///   - shown: The nodes and composites that are watched.
  ///   - classes: The conflict classes of composites whose doubts are reported.
  ///   - receivesEveryState: Whether every state is reported.
  package init(shown: Set<String>, classes: [ConflictClassPlan], receivesEveryState: Bool = true) {
    self.shown = shown
    self.receivesEveryState = receivesEveryState
    for plan in classes.flatMap(\.composites) where shown.contains(plan.name) {
      composites[plan.name] = Composite(nodes: plan.nodes)
    }
  }

  /// The nodes whose doubts must be known.
  package var nodes: Set<String> { Set(composites.values.flatMap(\.nodes)) }

  /// Processes a change from a feed.
  /// - Returns: The changes to show.
  package mutating func take(_ change: StateChange) -> [StateChange] {
    guard composites[change.node] == nil else {
      composites[change.node]?.take(change)
      return composites[change.node]?.stateWithDoubts.map { [$0] } ?? []
    }
    let own = shown.contains(change.node) ? [change] : []
    let before = doubts[change.node]
    guard before?.doubt != change.doubts.first else { return own }
    doubts[change.node] = change.doubts.first.map { ($0, change.version) }
    let hasMoved =
      receivesEveryState
      && before.map { change.cause == $0.doubt.composite && change.version > $0.version } ?? false
    return own
      + composites.keys.sorted().compactMap { name in
        composites[name]?.recordDoubt(change.node, change.doubts.first, hasMoved: hasMoved)
      }
  }
}

extension InDoubtRecords.Composite {
  /// Processes a state that the composite shows.
  fileprivate mutating func take(_ change: StateChange) {
    last = change
    guard !change.isRepeated else { return }
    for node in moved { shownDoubts[node] = nil }
    moved = []
    for (node, doubt) in shownDoubts where doubt.event == change.cause {
      nodesUpToDate.insert(node)
    }
  }

  /// Processes the new doubt of a node, or the end of its doubt.
  /// - Returns: The last state again, if its marks have changed.
  fileprivate mutating func recordDoubt(
    _ node: String, _ doubt: InDoubtTransaction?, hasMoved: Bool
  ) -> StateChange? {
    guard nodes.contains(node) else { return nil }
    // A restarted node reports the same doubt again. The composite may have shown the move before.
    let former = shownDoubts[node]
    let isSameDoubt =
      doubt != nil && former?.transaction == doubt?.transaction
      && former?.composite == doubt?.composite
    let isShown = isSameDoubt ? nodesUpToDate.contains(node) : nodesUpToDate.remove(node) != nil
    if doubt == nil, hasMoved, !isShown {
      moved.insert(node)
      return nil
    }
    moved.remove(node)
    shownDoubts[node] = doubt
    last?.missed = 0
    last?.isRepeated = true
    return stateWithDoubts
  }
}
