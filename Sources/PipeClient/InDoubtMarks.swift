import PipeMachines
import PipeWire

/// Marks composites' states with the doubts of the nodes that they are made of.
///
/// A doubt that ends with a commit stays until the composite shows the state that it led to: the two
/// come through different feeds, in any order. Where only the latest states are told, that state may not be
/// seen, and the doubt ends at once.
package struct InDoubtMarks: Sendable {
  private let shown: Set<String>
  private let seesEvery: Bool
  private var composites: [String: Composite] = [:]
  /// Of each node its last doubt, and the version that it was in then.
  private var doubts: [String: (doubt: InDoubtTransaction, version: UInt64)] = [:]

  fileprivate struct Composite {
    /// What its state is made of.
    let nodes: [String]
    var last: StateChange?
    var marks: [String: InDoubtTransaction] = [:]
    /// Nodes that have moved, while the composite has not shown it.
    var moved: Set<String> = []
    /// Nodes whose move the composite has shown, as far as its cause tells.
    var caughtUp: Set<String> = []

    var marked: StateChange? {
      guard var change = last else { return nil }
      change.doubts = nodes.compactMap { marks[$0] }
      return change
    }
  }

  /// - Parameters:
  ///   - shown: The nodes and composites that are watched.
  ///   - classes: Those of the composites whose doubts are to be told.
  ///   - seesEvery: Whether every state is told.
  package init(shown: Set<String>, classes: [ConflictClassPlan], seesEvery: Bool = true) {
    self.shown = shown
    self.seesEvery = seesEvery
    for plan in classes.flatMap(\.composites) where shown.contains(plan.name) {
      composites[plan.name] = Composite(nodes: plan.nodes)
    }
  }

  /// The nodes whose doubts are to be known.
  package var nodes: Set<String> { Set(composites.values.flatMap(\.nodes)) }

  /// Takes what a feed tells.
  /// - Returns: What is to be shown.
  package mutating func take(_ change: StateChange) -> [StateChange] {
    guard composites[change.node] == nil else {
      composites[change.node]?.take(change)
      return composites[change.node]?.marked.map { [$0] } ?? []
    }
    let own = shown.contains(change.node) ? [change] : []
    let before = doubts[change.node]
    guard before?.doubt != change.doubts.first else { return own }
    doubts[change.node] = change.doubts.first.map { ($0, change.version) }
    let hasMoved =
      seesEvery
      && before.map { change.cause == $0.doubt.composite && change.version > $0.version } ?? false
    return own
      + composites.keys.sorted().compactMap { name in
        composites[name]?.mark(change.node, change.doubts.first, hasMoved: hasMoved)
      }
  }
}

extension InDoubtMarks.Composite {
  /// Takes a state that the composite shows.
  fileprivate mutating func take(_ change: StateChange) {
    last = change
    guard !change.isRepeated else { return }
    for node in moved { marks[node] = nil }
    moved = []
    for (node, doubt) in marks where doubt.event == change.cause { caughtUp.insert(node) }
  }

  /// Takes what has become of a node's doubt.
  /// - Returns: The last state again, where that is marked otherwise now.
  fileprivate mutating func mark(
    _ node: String, _ doubt: InDoubtTransaction?, hasMoved: Bool
  ) -> StateChange? {
    guard nodes.contains(node) else { return nil }
    // A node that is started again tells the same doubt anew; what the composite has shown, it has shown.
    let former = marks[node]
    let isTheSame =
      doubt != nil && former?.transaction == doubt?.transaction
      && former?.composite == doubt?.composite
    let isShown = isTheSame ? caughtUp.contains(node) : caughtUp.remove(node) != nil
    if doubt == nil, hasMoved, !isShown {
      moved.insert(node)
      return nil
    }
    moved.remove(node)
    marks[node] = doubt
    last?.missed = 0
    last?.isRepeated = true
    return marked
  }
}
