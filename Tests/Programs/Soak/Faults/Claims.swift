import Synchronization

/// Tracks the processes that faults are using, so that incompatible faults do not overlap.
///
/// Nodes that share a process are struck together, so they are claimed together.
final class Claims: Sendable {
  /// A process, identified by the node for which it was started.
  private typealias Process = String

  private struct State {
    /// The suspended processes.
    var suspended: Set<Process> = []
    /// The processes that must not be ended, because they hold the only copy of their data at the
    /// moment.
    var guarded: Set<Process> = []
    /// The number of orderly restarts in progress, by process.
    var restarting: [Process: Int] = [:]
    var isTopologyClaimed = false
  }

  private let hosts: [String: String]
  private let state = Mutex(State())

  /// - Parameter hosts: The carrier nodes, by the nodes that live in their processes.
  init(hosts: [String: String]) { self.hosts = hosts }

  private func process(of node: String) -> Process { hosts[node] ?? node }

  /// Claims a node in order to suspend it.
  /// - Returns: Whether the claim succeeded: the process must not be suspended or guarded.
  func claimForSuspension(_ node: String) -> Bool {
    let process = process(of: node)
    return state.withLock { state in
      !state.guarded.contains(process) && state.suspended.insert(process).inserted
    }
  }

  func release(_ node: String) {
    let process = process(of: node)
    state.withLock { _ = $0.suspended.remove(process) }
  }

  /// Claims a node in order to restart it.
  /// - Returns: Whether the claim succeeded.
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

  /// Claims a node so that no fault ends it.
  /// - Returns: Whether the claim succeeded: no fault may be about to end it.
  func protectFromFaults(_ node: String) -> Bool {
    let process = process(of: node)
    return state.withLock { state in
      guard !state.suspended.contains(process), state.restarting[process, default: 0] == 0 else {
        return false
      }
      return state.guarded.insert(process).inserted
    }
  }

  func endProtection(of node: String) {
    let process = process(of: node)
    state.withLock { _ = $0.guarded.remove(process) }
  }

  /// Runs an action that may end a node, unless the node is guarded.
  func unlessGuarded(_ node: String, _ body: () -> Bool) -> Bool {
    let process = process(of: node)
    return state.withLock { !$0.guarded.contains(process) && body() }
  }

  /// Claims the whole topology.
  /// - Returns: Whether the claim succeeded.
  func claimTopology() -> Bool {
    state.withLock { state in
      defer { state.isTopologyClaimed = true }
      return !state.isTopologyClaimed
    }
  }

  func releaseTopology() { state.withLock { $0.isTopologyClaimed = false } }

  var isTopologyClaimed: Bool { state.withLock { $0.isTopologyClaimed } }
}
