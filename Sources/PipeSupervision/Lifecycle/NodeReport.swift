import PipeClient
import PipeTopology
import PipeWire

/// An event in the life of a node, for progress lines and logs.
package enum NodeReport: Hashable, Sendable {
  case starting(incarnation: Int)
  case spawned(pid: Int32)
  case saidHello
  /// The supervisor asks a process of a former supervisor for its state.
  case adopting(pid: Int32)
  case adopted(incarnation: Int)
  /// A process of a former supervisor is ended, to start another one.
  case replacing(reason: String)
  case ready
  /// The node is ready, but another node keeps it from running.
  case waiting(Obstacle)
  case running
  case stopping
  case killing(reason: String)
  case exited(ProcessExit)
  /// `attempt` of `limit` restarts within the window.
  case restarting(after: Duration, attempt: Int, limit: Int, reason: String)
  /// The node starts again when disk space is available. This does not count as a restart.
  case waitingForSpace(after: Duration, reason: String)
  /// A process that was to stop in order did not.
  case endedBadly(reason: String)
  case stopped
  case completed
  case failed(reason: String)
  /// The process has not ended after SIGKILL: the kernel holds it.
  case unkillable(pid: Int32)
  /// The process is on another host and has sent no sign of life, so that it is unknown whether it
  /// still runs.
  case lost(reason: String)
  /// A lost process has sent a sign of life again.
  case found
  /// The program that started the process on another host has ended without reporting the fate of the
  /// process.
  case unattached(reason: String)
  /// The process is on another host, and it is unknown whether SIGKILL has reached it.
  case outOfReach(pid: Int32)
  /// The next process of the node starts on another host, because the host of the last process is lost.
  case moving(from: String, to: String)
  /// The host of the node does not answer, and no other host is available.
  case awaitingHost(String)
  /// The agent that must start the node is not connected.
  case awaitingAgent
  /// The status that the node reports cannot be used.
  case misreporting(StatusProblem)

  /// A dependency that keeps a node from running: another node that does not run, or has not been in
  /// the required state.
  package struct Obstacle: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
      case failed, stopped
      /// The other node has ended in order, without having been in the state.
      case completed
      /// The other node is waiting for a dependency of its own.
      case waiting
      /// The other node may still get there by itself.
      case underway
    }

    package var node: String
    package var reason: Reason
    /// The required state; `nil` if it is enough that the other node runs.
    package var state: StateCondition?
    /// Whether the other node is the carrier node of the waiting one.
    package var isHost = false

    package init(
      _ node: String, _ reason: Reason, state: StateCondition? = nil, isHost: Bool = false
    ) {
      self.isHost = isHost
      self.node = node
      self.reason = reason
      self.state = state
    }
  }

  var isAwaitingHost: Bool { if case .awaitingHost = self { true } else { false } }

  /// Whether the report is shown to the user even if progress is not shown.
  package var isProblem: Bool {
    switch self {
    case .waiting(let obstacle): obstacle.reason != .underway
    case .killing, .restarting, .waitingForSpace, .failed, .unkillable, .replacing, .misreporting,
      .endedBadly,
      .lost, .unattached, .outOfReach, .moving, .awaitingHost:
      true
    case .starting, .spawned, .saidHello, .adopting, .adopted, .ready, .running, .found, .stopping,
      .exited, .stopped, .completed, .awaitingAgent:
      false
    }
  }
}

extension NodeReport: CustomStringConvertible {
  package var description: String {
    switch self {
    case .starting(let incarnation):
      incarnation > 1 ? "starting (start \(incarnation))" : "starting"
    case .spawned(pid: 0): "its agent starts it"
    case .spawned(let pid): "spawned, pid \(pid)"
    case .saidHello: "said hello"
    case .adopting(pid: 0): "lives on where its agent is; greeted"
    case .adopting(let pid): "lives on as pid \(pid); greeted"
    case .adopted(let incarnation):
      "adopted (start \(incarnation)); what it wrote while it had no orchestrator is lost"
    case .replacing(let reason): "not adopted: \(reason); it is ended and started anew"
    case .ready: "ready"
    case .waiting(let obstacle): "waits for \(obstacle)"
    case .running: "running"
    case .stopping: "stopping"
    case .killing(let reason): "killed: \(reason)"
    case .exited(let status): "ended: \(status)"
    case .restarting(let pause, let attempt, let limit, let reason):
      "\(reason); restart \(attempt) of \(limit) in \(pause.shortText)"
    case .waitingForSpace(let pause, let reason):
      "\(reason); another start in \(pause.shortText), which does not count as a restart"
    case .endedBadly(let reason): "did not stop in order: \(reason)"
    case .stopped: "stopped"
    case .completed: "completed"
    case .failed(let reason): "failed: \(reason)"
    case .unkillable(let pid): "pid \(pid) does not end even on SIGKILL; is a device or disk stuck?"
    case .lost(let reason):
      "lost: \(reason). Nothing is started in its place before it is certain that it has ended"
    case .found: "heard again"
    case .unattached(let reason): reason
    case .outOfReach(pid: 0):
      "its agent was told to kill it, and does not tell whether it has ended"
    case .outOfReach(let pid):
      "pid \(pid) was sent SIGKILL, and its host does not tell whether it has ended"
    case .moving(let former, let next): "moves from host \(former), which is lost, to \(next)"
    case .awaitingHost(let host):
      "starts as soon as host \(host) answers: there is no other one for it"
    case .awaitingAgent: "starts as soon as its agent is there"
    case .misreporting(let problem): "\(problem)"
    }
  }
}

extension NodeReport.Obstacle: CustomStringConvertible {
  package var description: String {
    let standing =
      switch reason {
      case .failed: "has failed"
      case .stopped: "is stopped"
      case .completed: "has ended"
      case .waiting: "waits, too"
      case .underway: "does not run yet"
      }
    if isHost { return "'\(node)', in whose process it lives and which \(standing)" }
    guard let state else { return "'\(node)', on which it depends and which \(standing)" }
    return "'\(node)' to be \(state)" + (reason == .underway ? "" : ", which \(standing)")
  }
}
