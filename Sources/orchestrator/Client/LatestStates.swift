import PipeRuntime
import Synchronization

/// The latest state of each node, as it tells it itself: what its orchestrator knows of it, which asks it now
/// and then, may be older.
package final class LatestStates: Sendable {
  private let changes = Mutex<[String: StateChange]>([:])

  package init() {}

  /// Follows nodes until the topology goes down, or the task is cancelled.
  func follow(_ nodes: [String], of client: TopologyClient) async {
    // Without it, what the orchestrator knows is shown.
    guard let states = try? await client.states(of: nodes, .latest) else { return }
    for await change in states { take(change) }
  }

  package func take(_ change: StateChange) { changes.withLock { $0[change.node] = change } }

  /// The nodes in the states that they have told, where these are of the processes that run.
  package func merged(into nodes: [NodeInformation]) -> [NodeInformation] {
    let changes = changes.withLock { $0 }
    return nodes.map { node in
      guard node.isRunning, let change = changes[node.name],
        change.incarnation == node.incarnation, change.version >= node.status?.version ?? 0
      else { return node }
      var node = node
      var status = node.status ?? NodeStatus()
      status.state = change.state
      status.version = change.version
      node.status = status
      return node
    }
  }
}
