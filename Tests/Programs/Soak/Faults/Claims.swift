import Synchronization

/// Tracks which processes are in use by faults, so that incompatible faults do not overlap.
///
/// A fault strikes all nodes of a process, so the nodes of a process are claimed together.
final class Claims: Sendable {
  /// A process, identified by the name of the node for which it was started.
  private typealias Process = String

  private struct State {
    /// The processes that a fault has suspended.
    var suspended: Set<Process> = []
    /// The processes that no fault may end, because their memory holds the only copy of their data.
    var guarded: Set<Process> = []
    /// For each process, the number of orderly restarts in progress.
    var restarting: [Process: Int] = [:]
    var isTopologyClaimed = false
  }

  private let hosts: [String: String]
  private let state = Mutex(State())

  /// - Parameter hosts: For each embedded node, its carrier node.
  init(hosts: [String: String]) { self.hosts = hosts }

  private func process(of node: String) -> Process { hosts[node] ?? node }

  /// Claims a node in order to suspend its process.
  /// - Returns: Whether the claim succeeded. It fails if the process is suspended or protected.
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

  /// Protects a node, so that no fault ends its process.
  /// - Returns: Whether the claim succeeded. It fails if a fault may be about to end the process.
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

  /// Runs an action that may end a node's process, unless the process is protected.
  /// - Returns: The result of the action; `false` if the process is protected.
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
