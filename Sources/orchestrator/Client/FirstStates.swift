import PipeRuntime

/// Puts the states that a watch begins with in the order of the nodes: they come as the nodes' feeds
/// tell them. Until all are there, they are collected.
package struct FirstStates: Sendable {
  private let order: [String: Int]
  private var missing: Set<String>
  private var collected: [StateChange] = []
  private var hasGivenUp = false

  /// - Parameters:
  ///   - nodes: All that are watched, in their order.
  ///   - awaited: Those of them that have a state to tell.
  package init(of nodes: [String], awaited: some Sequence<String>) {
    order = Dictionary(nodes.enumerated().map { ($1, $0) }) { first, _ in first }
    missing = Set(awaited)
  }

  /// Whether a state is still awaited.
  package var isCollecting: Bool { !missing.isEmpty && !hasGivenUp }

  /// Takes a change. Returns what is to be shown now.
  package mutating func take(_ change: StateChange) -> [StateChange] {
    guard isCollecting else { return [change] }
    collected.append(change)
    missing.remove(change.node)
    return isCollecting ? [] : release()
  }

  /// Waits no longer. Returns what was collected.
  package mutating func giveUp() -> [StateChange] {
    hasGivenUp = true
    return release()
  }

  /// The first state of each node in their order, then what came after these.
  private mutating func release() -> [StateChange] {
    var seen: Set<String> = []
    var firsts: [StateChange] = []
    var others: [StateChange] = []
    for change in collected {
      if seen.insert(change.node).inserted { firsts.append(change) } else { others.append(change) }
    }
    collected = []
    return firsts.sorted { order[$0.node] ?? .max < order[$1.node] ?? .max } + others
  }
}
