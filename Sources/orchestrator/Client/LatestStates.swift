import PipeRuntime
import Synchronization

/// What each node tells of itself, with its latest state: what its orchestrator knows of it, which asks it now
/// and then, may be older.
package final class LatestStates: Sendable {
  private let changes = Mutex<[String: StateChange]>([:])

  package init() {}

  /// Follows nodes until the topology goes down, or the task is cancelled.
  func follow(_ nodes: [String], of client: TopologyClient) async {
    // Without it, what the orchestrator knows is shown.
    guard let states = try? await client.states(of: nodes, .latest, tellingInDoubt: true)
    else { return }
    for await change in states { take(change) }
  }

  package func take(_ change: StateChange) { changes.withLock { $0[change.node] = change } }

  /// The nodes with what they have told, where that is of the processes that run.
  package func merged(into nodes: [NodeInformation]) -> [NodeInformation] {
    let changes = changes.withLock { $0 }
    return nodes.map { node in
      guard node.isRunning, let change = changes[node.name],
        change.incarnation == node.incarnation, change.version >= node.status?.version ?? 0
      else { return node }
      var node = node
      node.status = change.status(after: node.status)
      node.doubts = change.doubts
      return node
    }
  }
}

extension StateChange {
  /// The state with its counters, or with those that are known where these are newer.
  fileprivate func status(after known: NodeStatus?) -> NodeStatus {
    var status = known ?? NodeStatus()
    if var told = summary?.status, told.events >= status.events {
      // A summary has only the number of the letters, and no composites.
      (told.recentLetters, told.composites) = (status.recentLetters, status.composites)
      status = told
    }
    (status.state, status.version) = (state, version)
    status.doubt = doubts.first { $0.participant == node }
    return status
  }
}
