import PipeMachines
import PipeWire

/// Adds transactions in doubt to the states of a composite: the transactions in which components of
/// the composite are in doubt.
///
/// If such a transaction commits, the composite's states contain the transaction until the
/// composite publishes the resulting state. The composite and its components publish through
/// different feeds, so the resulting state can arrive before or after the component's report. If
/// the client receives only the latest states, it may never receive the resulting state. Then the
/// transaction is removed as soon as the component is no longer in doubt.
package struct InDoubtRecords: Sendable {
  private let watchedNames: Set<String>
  private let receivesEveryState: Bool
  private var composites: [String: Composite] = [:]
  /// For each node that is in doubt, the transaction, and the node's version when the node first
  /// reported the transaction.
  private var inDoubtByNode: [String: (doubt: InDoubtTransaction, version: UInt64)] = [:]

  fileprivate struct Composite {
    /// The nodes of the composite.
    let nodes: [String]
    var lastChange: StateChange?
    var shownDoubts: [String: InDoubtTransaction] = [:]
    /// The components that have committed the transaction, while the composite has not published
    /// the resulting state yet.
    var committedComponents: Set<String> = []
    /// The components whose transaction in doubt has already changed the composite's state: the
    /// composite has published the resulting state, whose cause is the transaction's event.
    var nodesUpToDate: Set<String> = []

    var stateWithDoubts: StateChange? {
      guard var change = lastChange else { return nil }
      change.doubts = nodes.compactMap { shownDoubts[$0] }
      return change
    }
  }

  /// - Parameters:
  ///   - watchedNames: The nodes and composites that the client watches.
  ///   - coordinatorPlans: The conflict classes of the composites whose transactions in doubt are
  ///     reported.
  ///   - receivesEveryState: Whether the client receives every state, and not only the latest.
  package init(
    watchedNames: Set<String>, coordinatorPlans: [ConflictClassPlan],
    receivesEveryState: Bool = true
  ) {
    self.watchedNames = watchedNames
    self.receivesEveryState = receivesEveryState
    for plan in coordinatorPlans.flatMap(\.composites) where watchedNames.contains(plan.name) {
      composites[plan.name] = Composite(nodes: plan.nodes)
    }
  }

  /// The nodes whose states the client must receive, because their transactions in doubt are
  /// reported.
  package var nodes: Set<String> { Set(composites.values.flatMap(\.nodes)) }

  /// Processes a change that a feed has reported.
  /// - Returns: The changes to report to the user.
  package mutating func take(_ change: StateChange) -> [StateChange] {
    guard composites[change.node] == nil else {
      composites[change.node]?.take(change)
      return composites[change.node]?.stateWithDoubts.map { [$0] } ?? []
    }
    let own = watchedNames.contains(change.node) ? [change] : []
    let before = inDoubtByNode[change.node]
    guard before?.doubt != change.doubts.first else { return own }
    inDoubtByNode[change.node] = change.doubts.first.map { ($0, change.version) }
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
  /// Processes a state that the composite has published.
  fileprivate mutating func take(_ change: StateChange) {
    lastChange = change
    guard !change.isRepeated else { return }
    for node in committedComponents { shownDoubts[node] = nil }
    committedComponents = []
    for (node, doubt) in shownDoubts where doubt.event == change.cause {
      nodesUpToDate.insert(node)
    }
  }

  /// Processes the start or the end of a component's transaction in doubt.
  /// - Returns: The composite's last state again, if the transactions in doubt have changed.
  fileprivate mutating func recordDoubt(
    _ node: String, _ doubt: InDoubtTransaction?, hasMoved: Bool
  ) -> StateChange? {
    guard nodes.contains(node) else { return nil }
    // If a node is restarted while its transaction is in doubt, the node reports the same
    // transaction again. The composite may already have published the resulting state, so the node
    // stays in `nodesUpToDate`.
    let former = shownDoubts[node]
    let isSameDoubt =
      doubt != nil && former?.transaction == doubt?.transaction
      && former?.composite == doubt?.composite
    let isShown = isSameDoubt ? nodesUpToDate.contains(node) : nodesUpToDate.remove(node) != nil
    if doubt == nil, hasMoved, !isShown {
      committedComponents.insert(node)
      return nil
    }
    committedComponents.remove(node)
    shownDoubts[node] = doubt
    lastChange?.missedCount = 0
    lastChange?.isRepeated = true
    return stateWithDoubts
  }
}
