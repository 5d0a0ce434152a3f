import PipeMachines
import PipeSupport

/// Why a call on a running topology failed.
public enum TopologyClientError: Error, Hashable, Sendable, CustomStringConvertible {
  /// No topology of that name runs; with the names of those that do.
  case notRunning(String, running: [String])
  /// The topology's orchestrator was killed, and these nodes of its live on; with the files that it ran by.
  case orphaned(String, nodes: [String], file: String?, deployment: String? = nil)
  /// No topology runs at all.
  case noneRunning
  /// Several topologies run, and none was named.
  case ambiguous([String])
  /// The orchestrator is gone.
  case orchestratorGone(String)
  /// The orchestrator is there, and did not answer within the time.
  case notAnswering(String, after: Duration)
  /// There is no node of that name; with the names there are.
  case unknownNode(String, known: [String])
  /// There is no pipe of that name; with the names there are.
  case unknownPipe(String, known: [String])
  /// The node does not run now.
  case nodeDown(String, String)
  /// The node takes no input now: a pipe of its is full. Nothing was applied; try again.
  case busy(String, String)
  /// The bytes are not an event of the node's machine. Nothing was applied.
  case invalidEvent(String, String)
  /// The node did not answer within the time, or went away where there is none: the event may have
  /// been applied, or may be yet.
  case unknownOutcome(String, after: Duration?)
  /// The node's states or events are not of the types that it is taken for.
  case otherType(String, String)
  /// A wait ended before what it waits for; with what follows "timed out".
  case timedOut(String)
  /// The orchestrator said no.
  case failed(String)
  /// The client was closed.
  case closed

  static let outOfPlace = TopologyClientError.failed("an answer out of place")

  /// What went wrong, and what to do next.
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
  /// The exit code of a command that ends for this. Source: DESIGN.md 6.
  package var exitCode: Int32 {
    switch self {
    case .notRunning, .noneRunning, .orphaned: 3
    case .ambiguous, .unknownNode, .unknownPipe, .invalidEvent, .otherType: 2
    case .timedOut, .notAnswering, .unknownOutcome(_, after: .some): 124
    case .orchestratorGone, .nodeDown, .busy, .unknownOutcome(_, after: nil), .failed, .closed: 1
    }
  }
}

/// What became of an event that a client sent.
public enum RequestOutcome: Hashable, Sendable {
  /// The machine took it.
  case moved(version: UInt64, state: JSONValue)
  /// The machine refused it in this state.
  case refused(Refusal, state: JSONValue)
  /// A dead letter was dropped.
  case done
}
