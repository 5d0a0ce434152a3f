import PipeRuntime

/// What each node tells of itself, with its latest state: what its orchestrator knows of it, which asks it now
/// and then, may be older.
package struct LatestStates: Sendable {
  private var changes: [String: StateChange] = [:]

  package init() {}

  package mutating func take(_ change: StateChange) { changes[change.node] = change }

  /// What a node has told last; `nil` where it has told nothing, or another process of it has.
  package func change(of node: NodeInformation) -> StateChange? {
    changes[node.name].flatMap { $0.incarnation == node.incarnation ? $0 : nil }
  }

  /// The nodes with what they have told, where that is of the processes that run.
  package func merged(into nodes: [NodeInformation]) -> [NodeInformation] {
    nodes.map { node in
      guard node.isRunning, let change = change(of: node),
        change.version >= node.status?.version ?? 0
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
