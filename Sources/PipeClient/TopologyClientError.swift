import PipeMachines
import PipeSupport

/// An error of a call on a running topology.
public enum TopologyClientError: Error, Hashable, Sendable, CustomStringConvertible {
  /// No topology of that name runs; with the names of running topologies.
  case notRunning(String, running: [String])
  /// The topology's orchestrator was killed, and these nodes of it still run; with its topology and
  /// deployment files.
  case orphaned(String, nodes: [String], file: String?, deployment: String? = nil)
  /// No topology runs at all.
  case noneRunning
  /// Several topologies run, and none was named.
  case ambiguous([String])
  /// The orchestrator is gone.
  case orchestratorGone(String)
  /// An orchestrator on another host cannot be reached at this endpoint.
  case unreachable(String, Unreachable)
  /// The key file for a topology on another host cannot be used, for this reason.
  case unusableKey(String)
  /// The orchestrator runs, but did not answer within this time.
  case notAnswering(String, after: Duration)
  /// There is no node of that name; with the existing names.
  case unknownNode(String, known: [String])
  /// There is no pipe of that name; with the existing names.
  case unknownPipe(String, known: [String])
  /// The node does not run now.
  case nodeDown(String, String)
  /// The node takes no input now: one of its pipes is full. Nothing was applied; try again.
  case busy(String, String)
  /// The bytes are not an event of the node's machine. Nothing was applied.
  case invalidEvent(String, String)
  /// The node did not answer within this time, or, if there is no time, disappeared. The event may
  /// have been applied, or may still be.
  case unknownOutcome(String, after: Duration?)
  /// The node's states or events are not of the expected types.
  case otherType(String, String)
  /// A wait timed out; with the text that follows "timed out".
  case timedOut(String)
  /// The orchestrator answered with this error.
  case failed(String)
  /// The client was closed.
  case closed

  /// The reason why an orchestrator on another host cannot be reached.
  public enum Unreachable: Hashable, Sendable {
    /// No process answered within this time.
    case silent(after: Duration)
    /// A process answered, but did not admit this client within this time.
    case unfinished(after: Duration)
    /// The name of the host cannot be resolved.
    case unknownHost(String)
    /// The process at the endpoint does not have the key of the expected orchestrator.
    case otherKey
    /// The orchestrator rejected this client's key.
    case turnedAway
    /// The connection broke before a command was answered. The command may have been carried out,
    /// or may still be.
    case lost
    /// The connection broke, and did not recover in time. The topology may continue.
    case broken
  }

  static let outOfPlace = TopologyClientError.failed("an answer out of place")

  /// A description of the error, with what to do next.
  public var description: String {
    switch self {
    case .notRunning(let name, let running):
      "no topology '\(name)' runs" + Suggestion.among(running, like: name, verb: "running:")
    case .orphaned(let name, let nodes, let file, let deployment):
      "the orchestrator of '\(name)' was killed and "
        + "\(nodes.count == 1 ? "1 node lives" : "\(nodes.count) nodes live") on: '"
        + "\(OrphanedTopology.upCommand(file: file, deployment: deployment))' adopts them, 'orchestrator down -p \(name)' ends them"
    case .noneRunning: "no topology runs; 'orchestrator up FILE' starts one"
    case .ambiguous(let names):
      "\(names.count) topologies run; choose one with -p: \(names.joined(separator: ", "))"
    case .orchestratorGone(let name):
      "the orchestrator of '\(name)' is gone"
    case .unreachable(let endpoint, let reason): reason.wording(at: endpoint)
    case .unusableKey(let reason): reason
    case .notAnswering(let name, let time):
      "the orchestrator of '\(name)' did not answer within \(time.shortText): it is stopped, hung or "
        + "very busy. Try again, or end it with 'orchestrator down -p \(name) --force'"
    case .unknownNode(let name, let known):
      "there is no node '\(name)'" + Suggestion.among(known, like: name, verb: "there are")
        + ([".yaml", ".yml", ".json"].contains { name.hasSuffix($0) }
          ? ". A topology that runs is meant by its name, with -p NAME: 'orchestrator ls' lists them"
          : "")
    case .unknownPipe(let name, let known):
      "there is no pipe '\(name)'" + Suggestion.among(known, like: name, verb: "there are")
    case .nodeDown(let node, let reason): "node '\(node)' does not run: \(reason)"
    case .busy(let node, let reason):
      "node '\(node)' is busy: \(reason). Nothing was applied; try again."
    case .invalidEvent(let node, let reason): "node '\(node)': \(reason)"
    case .unknownOutcome(let node, let time):
      "node '\(node)' "
        + (time.map { "did not answer within \($0.shortText)" } ?? "went away before it answered")
        + ": the event may have been applied or not. Look at its state before sending it again."
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
    case .unreachable(_, .turnedAway), .unreachable(_, .lost), .unreachable(_, .broken): 1
    case .unreachable: 3
    case .unusableKey, .ambiguous, .unknownNode, .unknownPipe, .invalidEvent, .otherType: 2
    case .timedOut, .notAnswering, .unknownOutcome(_, after: .some): 124
    case .orchestratorGone, .nodeDown, .busy, .unknownOutcome(_, after: nil), .failed, .closed: 1
    }
  }
}

extension TopologyClientError.Unreachable {
  /// Returns a description of the reason, with what to do next.
  fileprivate func wording(at endpoint: String) -> String {
    let copy = "copy 'client.key' anew from the runtime directory on its host"
    return switch self {
    case .silent(let time):
      "no orchestrator answered at \(endpoint) within \(time.shortText): look whether it runs ('orchestrator ls' on "
        + "its host), and whether its address and port are to be reached from here; --connect names another one"
    case .unfinished(let time):
      "whoever answers at \(endpoint) did not let this client in within \(time.shortText): an orchestrator that is "
        + "stopped or hung, one that does not know this key, or another program. Try again, or \(copy)"
    case .unknownHost(let host):
      "no address is known here for '\(host)': write another name, or the address in numbers, with --connect "
        + "tcp://HOST:PORT"
    case .otherKey:
      "whoever answers at \(endpoint) is not the orchestrator that the key file is of. Each run has new keys: where "
        + "the topology was started anew, \(copy)"
    case .turnedAway:
      "the orchestrator at \(endpoint) does not let in the key of this file: \(copy)"
    case .lost:
      "the connection to \(endpoint) broke before the orchestrator answered: the command may have been carried out, "
        + "or may yet be. Look at 'orchestrator ps' before giving it again"
    case .broken:
      "the connection to \(endpoint) was lost, and did not come again: the topology may go on, or its orchestrator was "
        + "killed. Look at 'orchestrator ps'"
    }
  }
}

/// The outcome of an event that a client sent.
public enum RequestOutcome: Hashable, Sendable {
  /// The machine took the event. The state is `null` in the answer to a repeated request, since the
  /// node keeps the version alone.
  case moved(version: UInt64, state: JSONValue)
  /// The machine refused the event in this state.
  case refused(Refusal, state: JSONValue)
  /// A dead letter was dropped, or its effect runs again.
  case done
}
