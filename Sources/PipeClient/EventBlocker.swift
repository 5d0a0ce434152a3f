import PipeMachines
import PipeSupport
import PipeWire

/// The reason why a node does not accept an event now.
public enum EventBlocker: Error, Hashable, Sendable {
  /// The machine refuses the event in this state. The refusal `asynchronous` occurs only for
  /// synchronized events: a node cannot promise an event whose transition is asynchronous.
  case refused(Refusal)
  /// An asynchronous transition of the node has not returned yet.
  case inTransition
  /// These outbound pipes of the node are full.
  case pipesFull([String])
  /// The node takes part in this synchronized event, which is in progress.
  case inTransaction(TransactionID)
  /// The node is prepared for a synchronized event, and does not know the coordinator's decision.
  case inDoubt(InDoubtTransaction)
  /// The node is not connected to the coordinator of the composite.
  case notConnected
  /// The node is not running, for this reason.
  case down(String)
  /// The node has not answered within this time.
  case silent(Duration)
  /// The node could not read the question, or the client could not read the answer.
  case unreadable(String)

  /// A one-word code for programs.
  public var code: String {
    switch self {
    case .refused(let refusal): refusal.code
    case .inTransition: "inTransition"
    case .pipesFull: "pipesFull"
    case .inTransaction: "inTransaction"
    case .inDoubt: "inDoubt"
    case .notConnected: "notConnected"
    case .down: "down"
    case .silent: "silent"
    case .unreadable: "unreadable"
    }
  }
}

extension EventBlocker: CustomStringConvertible {
  /// The reason in words.
  public var description: String { wording { Timestamp(nanoseconds: $0).description } }

  /// Returns the reason in words.
  /// - Parameter time: Formats a time in nanoseconds since 1970.
  package func wording(of time: (Int64) -> String) -> String {
    switch self {
    case .refused(.thrown(let error)): "the machine's function throws: \(error)"
    case .refused(.asynchronous):
      "the transition is asynchronous, so the node cannot promise the event and never accepts it "
        + "together with other nodes; declare the transition as self-contained, or use a "
        + "synchronous transition and wait in an effect"
    case .refused(let refusal): refusal.wording
    case .inTransition: "the node is busy: an asynchronous transition has not returned"
    case .pipesFull(let names):
      names.isEmpty
        ? "the node is busy: an outbound pipe is full"
        : "the node is busy: full outbound \(names.count == 1 ? "pipe" : "pipes") "
          + names.map { "'\($0)'" }.joined(separator: ", ")
    case .inTransaction(let transaction): "the node is busy in transaction \(transaction)"
    case .inDoubt(let doubt):
      "the node is in doubt in transaction \(doubt.transaction) (\(doubt.composite): "
        + "\(doubt.event)) since "
        + time(doubt.since)
    case .notConnected: "the node is not connected to its coordinator"
    case .down(let reason): "the node is not running: \(reason)"
    case .silent(let limit): "the node did not answer within \(limit.shortText)"
    case .unreadable(let problem): problem
    }
  }
}
