import Synchronization

/// Which nodes are in somebody's hands, so that faults that must not meet do not.
final class Claims: Sendable {
  private struct State {
    /// Nodes that stand still.
    var still: Set<String> = []
    /// Nodes that nobody may end: what they have is nowhere else at the moment.
    var guarded: Set<String> = []
    /// How often each is being restarted in order.
    var restarting: [String: Int] = [:]
    var isTopologyTaken = false
  }

  private let state = Mutex(State())

  /// Takes a node to let it stand still.
  /// - Returns: Whether it did not stand still already.
  func hold(_ node: String) -> Bool {
    state.withLock { !$0.guarded.contains(node) && $0.still.insert(node).inserted }
  }

  func release(_ node: String) { state.withLock { _ = $0.still.remove(node) } }

  /// Takes a node to restart it in order.
  /// - Returns: Whether that may be.
  func beginRestart(of node: String) -> Bool {
    state.withLock { state in
      guard !state.guarded.contains(node) else { return false }
      state.restarting[node, default: 0] += 1
      return true
    }
  }

  func endRestart(of node: String) { state.withLock { $0.restarting[node, default: 1] -= 1 } }

  /// Takes a node so that nobody ends it.
  /// - Returns: Whether nobody is about to.
  func guardAgainstEnds(_ node: String) -> Bool {
    state.withLock { state in
      guard !state.still.contains(node), state.restarting[node, default: 0] == 0 else {
        return false
      }
      return state.guarded.insert(node).inserted
    }
  }

  func endGuard(of node: String) { state.withLock { _ = $0.guarded.remove(node) } }

  /// Does something to a node that may end it, unless it is guarded.
  func unlessGuarded(_ node: String, _ body: () -> Bool) -> Bool {
    state.withLock { !$0.guarded.contains(node) && body() }
  }

  /// Takes the topology as a whole.
  /// - Returns: Whether nobody had it.
  func takeTopology() -> Bool {
    state.withLock { state in
      defer { state.isTopologyTaken = true }
      return !state.isTopologyTaken
    }
  }

  func releaseTopology() { state.withLock { $0.isTopologyTaken = false } }

  var isTopologyTaken: Bool { state.withLock { $0.isTopologyTaken } }
}
