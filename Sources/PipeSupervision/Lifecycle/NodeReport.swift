import PipeClient
import PipeTopology
import PipeWire

/// What happened to a node, for progress lines and logs.
package enum NodeReport: Hashable, Sendable {
  case starting(incarnation: Int)
  case spawned(pid: Int32)
  case saidHello
  /// A process that a former supervisor started is asked where it stands.
  case adopting(pid: Int32)
  case adopted(incarnation: Int)
  /// A process that a former supervisor started is ended, to start another.
  case replacing(reason: String)
  case ready
  /// It is ready and does not go, because of a node that it depends on.
  case waiting(Obstacle)
  case running
  case stopping
  case killing(reason: String)
  case exited(ProcessExit)
  /// `attempt` of `limit` restarts within the window.
  case restarting(after: Duration, attempt: Int, limit: Int, reason: String)
  /// It is started again when a disk has space, which does not count as a restart.
  case waitingForSpace(after: Duration, reason: String)
  /// A process that was to stop in order did not.
  case endedBadly(reason: String)
  case stopped
  case completed
  case failed(reason: String)
  /// It did not go even after SIGKILL: the kernel holds it.
  case unkillable(pid: Int32)
  /// It runs on another host, and nothing is heard of it: whether it goes on there cannot be told.
  case lost(reason: String)
  /// It was lost, and is heard again.
  case found
  /// What started it on another host has ended without knowing what became of it.
  case unattached(reason: String)
  /// It runs on another host, and whether SIGKILL has reached it there cannot be told.
  case outOfReach(pid: Int32)
  /// Its next process starts on another host, since that of its last one is lost.
  case moving(from: String, to: String)
  /// Its host does not answer, and there is no other one for it.
  case awaitingHost(String)
  /// The agent that is to start it is not there.
  case awaitingAgent
  /// What it tells of itself cannot be used.
  case misreporting(StatusProblem)

  /// A node that does not run, or has not been in a state, on which another depends.
  package struct Obstacle: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
      case failed, stopped
      /// It has done what it had to, without having been in the state.
      case completed
      /// It waits for another itself.
      case waiting
      /// It may come there by itself.
      case underway
    }

    package var node: String
    package var reason: Reason
    /// The state that is waited for; `nil` where it is enough that the node runs.
    package var state: StateCondition?
    /// Whether it is the one in whose process the other lives.
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

  /// Whether a person should be told even if progress is not shown.
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
