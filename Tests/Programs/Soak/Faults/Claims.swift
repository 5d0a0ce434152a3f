import Synchronization

/// Which processes are in somebody's hands, so that faults that must not meet do not.
///
/// Nodes that live in one process are struck together, so they are claimed together.
final class Claims: Sendable {
  /// A process, by the node that it was started for.
  private typealias Process = String

  private struct State {
    /// Those that stand still.
    var still: Set<Process> = []
    /// Those that nobody may end: what they have is nowhere else at the moment.
    var guarded: Set<Process> = []
    /// How often each is being restarted in order.
    var restarting: [Process: Int] = [:]
    var isTopologyTaken = false
  }

  private let hosts: [String: String]
  private let state = Mutex(State())

  /// - Parameter hosts: The nodes in whose processes others live, by these others.
  init(hosts: [String: String]) { self.hosts = hosts }

  private func process(of node: String) -> Process { hosts[node] ?? node }

  /// Takes a node to let it stand still.
  /// - Returns: Whether it did not stand still already.
  func hold(_ node: String) -> Bool {
    let process = process(of: node)
    return state.withLock { state in
      !state.guarded.contains(process) && state.still.insert(process).inserted
    }
  }

  func release(_ node: String) {
    let process = process(of: node)
    state.withLock { _ = $0.still.remove(process) }
  }

  /// Takes a node to restart it in order.
  /// - Returns: Whether that may be.
  func beginRestart(of node: String) -> Bool {
    let process = process(of: node)
    return state.withLock { state in
      guard !state.guarded.contains(process) else { return false }
      state.restarting[process, default: 0] += 1
      return true
    }
  }

  func endRestart(of node: String) {
    let process = process(of: node)
    state.withLock { $0.restarting[process, default: 1] -= 1 }
  }

  /// Takes a node so that nobody ends it.
  /// - Returns: Whether nobody is about to.
  func guardAgainstEnds(_ node: String) -> Bool {
    let process = process(of: node)
    return state.withLock { state in
      guard !state.still.contains(process), state.restarting[process, default: 0] == 0 else {
        return false
      }
      return state.guarded.insert(process).inserted
    }
  }

  func endGuard(of node: String) {
    let process = process(of: node)
    state.withLock { _ = $0.guarded.remove(process) }
  }

  /// Does something to a node that may end it, unless it is guarded.
  func unlessGuarded(_ node: String, _ body: () -> Bool) -> Bool {
    let process = process(of: node)
    return state.withLock { !$0.guarded.contains(process) && body() }
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
