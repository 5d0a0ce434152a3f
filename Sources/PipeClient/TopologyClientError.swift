import PipeMachines
import PipeSupport

/// An error of a call on a running topology. The first string of a case is the name of the topology
/// or node, unless the case says otherwise. The second string is the reason.
public enum TopologyClientError: Error, Hashable, Sendable, CustomStringConvertible {
  /// No topology with this name is running. Contains the names of the running topologies.
  case notRunning(String, running: [String])
  /// The topology's orchestrator was killed, and these nodes are still running. Contains the
  /// topology file and the deployment file.
  case orphaned(String, nodes: [String], file: String?, deployment: String? = nil)
  /// No topology is running.
  case noneRunning
  /// Several topologies, with these names, are running, and the call names none of them.
  case ambiguous([String])
  /// The orchestrator is no longer running.
  case orchestratorGone(String)
  /// An orchestrator on another host cannot be reached at this endpoint.
  case unreachable(String, Unreachable)
  /// The key file for a topology on another host cannot be used, for this reason.
  case unusableKey(String)
  /// The orchestrator is running, but has not answered within this time.
  case notAnswering(String, after: Duration)
  /// There is no node with this name. Contains the names of the existing nodes.
  case unknownNode(String, known: [String])
  /// The node has shards, and the request is for one process. Contains the name of the first shard
  /// and the number of shards.
  case hasShards(String, first: String, count: Int)
  /// There is no pipe with this name. Contains the names of the existing pipes.
  case unknownPipe(String, known: [String])
  /// The node is not running, for this reason.
  case nodeDown(String, String)
  /// The node accepts no events now, for example because one of its pipes is full. The event was
  /// not applied; try again.
  case busy(String, String)
  /// The JSON is not an event of the node's machine. The event was not applied.
  case invalidEvent(String, String)
  /// The node did not answer within this time; without a time, the node ended before it answered.
  /// The event may have been applied, or may be applied later.
  case unknownOutcome(String, after: Duration?)
  /// The node's states or events are not of the expected types.
  case otherType(String, String)
  /// A wait timed out. The string is the part of the message after "timed out".
  case timedOut(String)
  /// The orchestrator answered with this error.
  case failed(String)
  /// The client was closed.
  case closed

  /// The reason why an orchestrator on another host cannot be reached.
  public enum Unreachable: Hashable, Sendable {
    /// No process at the endpoint answered within this time.
    case silent(after: Duration)
    /// A process at the endpoint answered, but did not admit this client within this time.
    case unfinished(after: Duration)
    /// The name of the host cannot be resolved.
    case unknownHost(String)
    /// The process at the endpoint does not have the key of the expected orchestrator.
    case otherKey
    /// The orchestrator rejected this client's key.
    case keyRejected
    /// The connection broke before a command was answered. The command may have been executed, or
    /// may be executed later.
    case lost
    /// The connection broke, and was not restored in time. The topology may still be running.
    case broken
  }

  /// The reasons of ``invalidEvent(_:_:)`` for nodes that accept no events.
  package static let constantProblem = "a constant node accepts no events"
  package static let monitorProblem = "a monitor accepts no events"

  static let unexpectedAnswer = TopologyClientError.failed("received an unexpected answer")

  /// A description of the error, with what to do next.
  public var description: String {
    switch self {
    case .notRunning(let name, let running):
      "topology '\(name)' is not running" + Suggestion.among(running, like: name, verb: "running:")
    case .orphaned(let name, let nodes, let file, let deployment):
      "the orchestrator of '\(name)' was killed, and "
        + "\(nodes.count == 1 ? "1 node is" : "\(nodes.count) nodes are") still running; "
        + "'\(OrphanedTopology.upCommand(file: file, deployment: deployment))' adopts them, "
        + "'orchestrator down -p \(name)' ends them"
    case .noneRunning: "no topology is running; 'orchestrator up FILE' starts a topology"
    case .ambiguous(let names):
      "\(names.count) topologies are running; choose a topology with -p: "
        + "\(names.joined(separator: ", "))"
    case .orchestratorGone(let name):
      "the orchestrator of '\(name)' is no longer running"
    case .unreachable(let endpoint, let reason): reason.wording(at: endpoint)
    case .unusableKey(let reason): reason
    case .notAnswering(let name, let time):
      "the orchestrator of '\(name)' did not answer within \(time.shortText): the process is "
        + "stopped, hung or very busy; try again, or end the orchestrator with 'orchestrator "
        + "down -p \(name) --force'"
    case .unknownNode(let name, let known):
      "no such node '\(name)'" + Suggestion.among(known, like: name, verb: "the nodes are")
        + ([".yaml", ".yml", ".json"].contains { name.hasSuffix($0) }
          ? "; name a running topology with -p NAME; 'orchestrator ls' lists the running topologies"
          : "")
    case .hasShards(let name, let first, let count):
      "node '\(name)' has \(count) shards, and this works with one process; name a shard, as in "
        + "'\(first)', or an instance, as in '\(name)[KEY]'"
    case .unknownPipe(let name, let known):
      "no such pipe '\(name)'" + Suggestion.among(known, like: name, verb: "the pipes are")
    case .nodeDown(let node, let reason): "node '\(node)' is not running: \(reason)"
    case .busy(let node, let reason):
      "node '\(node)' is busy: \(reason); nothing was applied; try again"
    case .invalidEvent(let node, let reason): "node '\(node)': \(reason)"
    case .unknownOutcome(let node, let time):
      "node '\(node)' "
        + (time.map { "did not answer within \($0.shortText)" } ?? "ended before it answered")
        + "; the outcome is unknown: the event may or may not have been applied; check the node's "
        + "state before you send the event again"
    case .otherType(let node, let reason): "node '\(node)' is of another type: \(reason)"
    case .timedOut(let what): "timed out \(what)"
    case .failed(let reason): reason
    case .closed: "the client is closed"
    }
  }
}

extension TopologyClientError {
  /// The exit code of a command that ends with this error. Source: docs/COMMANDS.md.
  package var exitCode: Int32 {
    switch self {
    case .notRunning, .noneRunning, .orphaned: 3
    case .unreachable(_, .keyRejected), .unreachable(_, .lost), .unreachable(_, .broken): 1
    case .unreachable: 3
    case .unusableKey, .ambiguous, .unknownNode, .hasShards, .unknownPipe, .invalidEvent,
      .otherType:
      2
    case .timedOut, .notAnswering, .unknownOutcome(_, after: .some): 124
    case .orchestratorGone, .nodeDown, .busy, .unknownOutcome(_, after: nil), .failed, .closed: 1
    }
  }
}

extension TopologyClientError.Unreachable {
  /// Returns a description of the reason, with what to do next.
  fileprivate func wording(at endpoint: String) -> String {
    let copy = "copy 'client.key' again from the runtime directory on the orchestrator's host"
    return switch self {
    case .silent(let time):
      "no orchestrator answered at \(endpoint) within \(time.shortText): check that the "
        + "orchestrator is running ('orchestrator ls' on its host), and that its address and "
        + "port are reachable from this host; --connect names another endpoint"
    case .unfinished(let time):
      "the process at \(endpoint) did not admit this client within \(time.shortText): the "
        + "orchestrator is stopped or hung, or does not know this key, or another program uses "
        + "this port; try again, or \(copy)"
    case .unknownHost(let host):
      "unknown host '\(host)': no address found; write another name or a numeric address with "
        + "--connect tcp://HOST:PORT"
    case .otherKey:
      "the process at \(endpoint) is not the orchestrator of the key file; each run has new keys: "
        + "if the topology was started again, \(copy)"
    case .keyRejected:
      "the orchestrator at \(endpoint) rejected the key of this file; \(copy)"
    case .lost:
      "the connection to \(endpoint) was lost before the orchestrator answered; the outcome is "
        + "unknown: the command may or may not be executed; check 'orchestrator ps' before you "
        + "repeat the command"
    case .broken:
      "the connection to \(endpoint) was lost and could not be restored: the topology may still be "
        + "running, or its orchestrator was killed; check 'orchestrator ps'"
    }
  }
}

/// The outcome of an event that a client sent.
public enum RequestOutcome: Hashable, Sendable {
  /// The machine accepted the event. The state is `null` if the client did not request the state,
  /// or if the request was repeated: the node keeps only the version.
  case accepted(version: UInt64, state: JSONValue)
  /// The machine refused the event in this state.
  case refused(Refusal, state: JSONValue)
  /// A dead letter was removed, or the effect of a dead letter runs again.
  case done
}
