import PipeMachines
import PipeWire

/// The latest states, as reported by the nodes themselves. The orchestrator's data may be older,
/// since the orchestrator asks the nodes only at intervals.
package struct LatestStates: Sendable {
  private var changes: [String: StateChange] = [:]

  package init() {}

  package mutating func take(_ change: StateChange) { changes[change.node] = change }

  /// Returns the latest state that a node's current process has reported; `nil` if the process has
  /// reported none.
  package func change(of node: NodeInformation) -> StateChange? {
    changes[node.name].flatMap { $0.incarnation == node.incarnation ? $0 : nil }
  }

  /// Returns the nodes, each with its latest state. States of earlier processes are ignored.
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
  /// Returns a status with the state of this change. The counters are from this change or from the
  /// previous status, whichever are newer.
  fileprivate func status(after previous: NodeStatus?) -> NodeStatus {
    var status = previous ?? NodeStatus()
    if var reportedStatus = summary?.status, reportedStatus.events >= status.events {
      // A summary contains no list of dead letters, only their number, and no composites.
      (reportedStatus.recentDeadLetters, reportedStatus.composites) = (
        status.recentDeadLetters, status.composites
      )
      status = reportedStatus
    }
    (status.state, status.version, status.since) = (state, version, time)
    status.doubt = doubts.first { InstanceName.node(of: $0.participant) == node }
    return status
  }
}
