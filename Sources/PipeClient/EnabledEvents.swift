import PipeMachines
import PipeSupport
import PipeWire

/// The events of a node or a composite: which of them it takes now, and which nodes block the others.
public struct EnabledEvents: Hashable, Sendable {
  /// The name of the node, or of the composite.
  public var name: String
  /// The kind of the node.
  public var kind: NodeInformation.Kind
  /// The state as JSON; `nil` if it is unknown.
  public var state: JSONValue?
  /// The number of the node's steps; for a composite, the number of states that it has shown after
  /// the first.
  public var version: UInt64?
  /// For a node, each event of its alphabet. A synchronized event is listed for each composite
  /// through which the node takes it. For a composite, the events that it synchronizes, and then
  /// the events that its nodes take on their own.
  public var events: [EventEnabledness]
  /// The names of the state's fields, by node, for states that are structs.
  package var stateFields: [String: [String]]

  package init(
    name: String, kind: NodeInformation.Kind, state: JSONValue?, version: UInt64?,
    events: [EventEnabledness], stateFields: [String: [String]] = [:]
  ) {
    self.name = name
    self.kind = kind
    self.state = state
    self.version = version
    self.events = events
    self.stateFields = stateFields
  }

  /// The combined verdict: enabled if an event is enabled.
  public var verdict: EventEnabledness.Verdict {
    typealias Verdict = EventEnabledness.Verdict
    let verdicts = Set(events.map(\.verdict))
    for verdict in [Verdict.enabled, .dependsOnValue, .undetermined]
    where verdicts.contains(verdict) {
      return verdict
    }
    return .blocked
  }
}

/// Whether an event is taken now, and if not, which nodes block it and why.
///
/// Each participant of a synchronized event is asked separately, so the answers may be of slightly
/// different times. Each answer has the version that it is about.
public struct EventEnabledness: Hashable, Sendable {
  /// A verdict on an event.
  public enum Verdict: String, Codable, Hashable, Sendable {
    /// All participants take the event.
    case enabled
    /// A participant or the coordinator blocks the event.
    case blocked
    /// A guard decides by the event's values, and none were given.
    case dependsOnValue
    /// The event's transition is asynchronous, or its machine is an asynchronous function: only a
    /// run can decide.
    case undetermined
  }

  /// The answer of one participant.
  public struct Answer: Hashable, Sendable {
    /// The node; or the composite's coordinator, if the coordinator blocks the event.
    public var participant: String
    /// The participant's state as JSON; `nil` if the participant has not reported it.
    public var state: JSONValue?
    /// The number of the participant's steps.
    public var version: UInt64?
    /// Whether the participant takes the event, regardless of the others.
    public var verdict: Verdict
    /// The reason why the participant blocks the event; `nil` if it does not.
    public var blocker: EventBlocker?

    package init(
      participant: String, state: JSONValue? = nil, version: UInt64? = nil,
      verdict: Verdict = .blocked, blocker: EventBlocker? = nil
    ) {
      self.participant = participant
      self.state = state
      self.version = version
      self.verdict = verdict
      self.blocker = blocker
    }
  }

  /// The event's case, with the fields that it carries.
  public var event: CaseDescription
  /// The composite through which the participants take the event together; `nil` if one node takes it alone.
  public var composite: String?
  /// The nodes that take the event: all of them, or none.
  public var participants: [String]
  /// The answers of the participants, after the coordinator's answer if the coordinator blocks the event.
  public var answers: [Answer]

  package init(
    event: CaseDescription, composite: String? = nil, participants: [String], answers: [Answer]
  ) {
    self.event = event
    self.composite = composite
    self.participants = participants
    self.answers = answers
  }

  /// The combined verdict on the event.
  public var verdict: Verdict {
    let verdicts = Set(answers.map(\.verdict))
    for verdict in [Verdict.blocked, .undetermined, .dependsOnValue]
    where verdicts.contains(verdict) { return verdict }
    return .enabled
  }

  /// The answers of the nodes that block the event.
  public var blockingAnswers: [Answer] { answers.filter { $0.blocker != nil } }
}

/// The reason why a node does not take an event now.
public enum EventBlocker: Error, Hashable, Sendable {
  /// The machine refuses the event in this state. An asynchronous transition is a reason only for
  /// an event that several nodes take together, since the node cannot prepare for it.
  case refused(Refusal)
  /// An asynchronous transition has not returned.
  case inTransition
  /// These outbound pipes of the node are full.
  case pipesFull([String])
  /// The node takes part in this synchronized event, which is in progress.
  case inTransaction(TransactionID)
  /// The node is prepared for a synchronized event, and does not know the outcome.
  case inDoubt(InDoubtTransaction)
  /// The coordinator of the composite has no connection to the node.
  case notConnected
  /// The node does not run, for this reason.
  case down(String)
  /// The node has not answered within this time.
  case silent(Duration)
  /// The node could not read the question.
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
    case .refused(.noTransition): "the state has no transition for the event"
    case .refused(.guard): "the transition's guard is false"
    case .refused(.thrown(let error)): "the machine's function throws: \(error)"
    case .refused(.asynchronous):
      "the transition is asynchronous, so the node cannot promise the event and never accepts it "
        + "together with other nodes; declare the transition as self-contained, or use a "
        + "synchronous transition and wait in an effect"
    case .refused(.timedOut): "the asynchronous transition did not return within its time limit"
    case .refused(.stateTooLarge): Refusal.stateTooLarge.wording
    case .refused(.ended): Refusal.ended.wording
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
