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
  /// A process of a former supervisor must end before a new process starts.
  case replacing(reason: String)
  case ready
  /// The node is ready, but must wait for another node before it runs.
  case waiting(Blocker)
  case running
  case stopping
  case killing(reason: String)
  case exited(ProcessExit)
  /// The node is restarted after a pause. The restart policy allows `limit` restarts within its
  /// window, and this restart is number `attempt`.
  case restarting(after: Duration, attempt: Int, limit: Int, reason: String)
  /// The node starts again after a pause, because the disk was full. This start does not count as a
  /// restart.
  case waitingForSpace(after: Duration, reason: String)
  /// A process that had to stop did not stop gracefully.
  case ungracefulStop(reason: String)
  case stopped
  case completed
  case failed(reason: String)
  /// The process has not ended after SIGKILL, because the kernel does not let it end yet.
  case unkillable(pid: Int32)
  /// The process is on another host and has sent no sign of life. It is unknown whether the process
  /// is still running.
  case lost(reason: String)
  /// A lost process has sent a sign of life again.
  case reachableAgain
  /// The program that started the process on another host has ended without reporting whether the
  /// process has ended.
  case unattached(reason: String)
  /// The process is on another host, and it is unknown whether SIGKILL has reached it.
  case outOfReach(pid: Int32)
  /// The next process of the node starts on another host, because the host of the last process does
  /// not answer.
  case moving(from: String, to: String)
  /// The host of the node does not answer, and no other host is available.
  case awaitingHost(String)
  /// The agent that must start the node is not connected.
  case awaitingAgent
  /// The node reports a status that cannot be read.
  case unreadableStatus(StatusError)

  /// The disk has no space for a copy of the program.
  case programNotCopied(reason: String)

  /// A dependency that keeps a node from running: another node that is not running, or has not been
  /// in the required state yet.
  package struct Blocker: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
      case failed, stopped
      /// The other node has stopped gracefully, and was never in the required state.
      case completed
      /// The other node is waiting for a dependency of its own.
      case waiting
      /// The other node may still start, or reach the state, without a request.
      case underway
    }

    package var node: String
    package var reason: Reason
    /// The required state; `nil` if the other node only has to run.
    package var state: StateCondition?
    /// Whether the other node is the carrier node of the node that waits.
    package var isCarrier = false

    package init(
      _ node: String, _ reason: Reason, state: StateCondition? = nil, isCarrier: Bool = false
    ) {
      self.isCarrier = isCarrier
      self.node = node
      self.reason = reason
      self.state = state
    }
  }

  var isAwaitingHost: Bool { if case .awaitingHost = self { true } else { false } }

  /// Whether the report is shown to the user even if progress is not shown.
  package var isProblem: Bool {
    switch self {
    case .waiting(let blocker): blocker.reason != .underway
    case .killing, .restarting, .waitingForSpace, .failed, .unkillable, .replacing,
      .unreadableStatus, .programNotCopied, .ungracefulStop, .lost, .unattached, .outOfReach,
      .moving, .awaitingHost:
      true
    case .starting, .spawned, .saidHello, .adopting, .adopted, .ready, .running, .reachableAgain,
      .stopping,
      .exited, .stopped, .completed, .awaitingAgent:
      false
    }
  }
}

extension NodeReport: CustomStringConvertible {
  package var description: String {
    switch self {
    case .starting(let incarnation):
      incarnation > 1 ? "starting (incarnation \(incarnation))" : "starting"
    case .spawned(pid: 0): "the agent starts the process"
    case .spawned(let pid): "spawned, pid \(pid)"
    case .saidHello: "connected"
    case .adopting(pid: 0): "still running under its agent; reconnecting"
    case .adopting(let pid): "still running as pid \(pid); reconnecting"
    case .adopted(let incarnation):
      "adopted (incarnation \(incarnation)); output from the time without an orchestrator is lost"
    case .replacing(let reason): "not adopted: \(reason); the process is replaced"
    case .ready: "ready"
    case .waiting(let blocker): "waits for \(blocker)"
    case .running: "running"
    case .stopping: "stopping"
    case .killing(let reason): "killed: \(reason)"
    case .exited(let status): "ended: \(status)"
    case .restarting(let pause, let attempt, let limit, let reason):
      "\(reason); restart \(attempt) of \(limit) in \(pause.shortText)"
    case .waitingForSpace(let pause, let reason):
      "\(reason); next start in \(pause.shortText), not counted as a restart"
    case .ungracefulStop(let reason): "did not stop gracefully: \(reason)"
    case .stopped: "stopped"
    case .completed: "completed"
    case .failed(let reason): "failed: \(reason)"
    case .unkillable(let pid):
      "pid \(pid) did not exit after SIGKILL; check for a blocked device or disk"
    case .lost(let reason):
      "lost: \(reason); no replacement is started until the process is known to have ended"
    case .reachableAgain: "reachable again"
    case .unattached(let reason): reason
    case .outOfReach(pid: 0):
      "the agent was asked to kill the process, and has not confirmed its end"
    case .outOfReach(let pid):
      "SIGKILL was sent to pid \(pid), and its host has not confirmed the end of the process"
    case .moving(let former, let next): "moves from lost host '\(former)' to host '\(next)'"
    case .awaitingHost(let host):
      "waits for host '\(host)' to answer; no other host is available"
    case .awaitingAgent: "waits for its agent to connect"
    case .unreadableStatus(let problem): "\(problem)"
    case .programNotCopied(let reason):
      "\(reason). Until there is space, a restart runs the file that is then at the path"
    }
  }
}

extension NodeReport.Blocker: CustomStringConvertible {
  package var description: String {
    let statusText =
      switch reason {
      case .failed: "has failed"
      case .stopped: "is stopped"
      case .completed: "has ended"
      case .waiting: "is waiting, too"
      case .underway: "does not run yet"
      }
    if isCarrier { return "carrier node '\(node)', which \(statusText)" }
    guard let state else { return "dependency '\(node)', which \(statusText)" }
    return "'\(node)' to be \(state)" + (reason == .underway ? "" : ", but '\(node)' \(statusText)")
  }
}
