import PipeMachines
import PipeSupport
import PipeWire

/// Which events a node, or a composite, takes now, and who withholds the others.
public struct EnabledEvents: Hashable, Sendable {
  /// The name of the node, or of the composite.
  public var name: String
  /// What it is.
  public var kind: NodeInformation.Kind
  /// Its state as JSON; `nil` where none is known.
  public var state: JSONValue?
  /// The count of its steps; of a composite, the count of states that it has shown after the first.
  public var version: UInt64?
  /// Of a node, each event of its alphabet; one that is synchronized, for each composite through which
  /// it takes it. Of a composite, the events that it synchronizes, then those that its nodes take each
  /// for itself.
  public var events: [EventEnabledness]
  /// By node, the names of its state's fields where that is a struct.
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

  /// What is to be said of all of them: enabled where one is.
  public var verdict: EventEnabledness.Verdict {
    typealias Verdict = EventEnabledness.Verdict
    let verdicts = Set(events.map(\.verdict))
    for verdict in [Verdict.enabled, .dependsOnValue, .undetermined]
    where verdicts.contains(verdict) {
      return verdict
    }
    return .withheld
  }
}

/// Whether an event is taken now, and if not, who withholds it and why.
///
/// Of a synchronized event each participant is asked for itself, so that their answers may be of
/// slightly different times; an answer tells the version that it is about.
public struct EventEnabledness: Hashable, Sendable {
  /// What is to be said of the event.
  public enum Verdict: String, Codable, Hashable, Sendable {
    /// All take it.
    case enabled
    /// Somebody withholds it.
    case withheld
    /// A guard decides by the values that it carries, and none were given.
    case dependsOnValue
    /// Its transition is asynchronous, or its machine an asynchronous function: only a run can tell.
    case undetermined
  }

  /// What one of those says who are to take it.
  public struct Answer: Hashable, Sendable {
    /// The node; or the coordinator of the composite, where that keeps the event from being taken.
    public var participant: String
    /// Its state as JSON; `nil` where it has not told it.
    public var state: JSONValue?
    /// The count of its steps.
    public var version: UInt64?
    /// Whether it takes the event, as far as the others let it.
    public var verdict: Verdict
    /// Why it withholds the event; `nil` where it does not.
    public var obstacle: EventObstacle?

    package init(
      participant: String, state: JSONValue? = nil, version: UInt64? = nil,
      verdict: Verdict = .withheld, obstacle: EventObstacle? = nil
    ) {
      self.participant = participant
      self.state = state
      self.version = version
      self.verdict = verdict
      self.obstacle = obstacle
    }
  }

  /// The event's case, with the fields that it carries.
  public var event: CaseDescription
  /// The composite through which its participants take it together; `nil` where one node takes it
  /// alone.
  public var composite: String?
  /// The nodes that take it: all of them, or none.
  public var participants: [String]
  /// What each of them says; and before them the coordinator, where that keeps the event from being
  /// taken.
  public var answers: [Answer]

  package init(
    event: CaseDescription, composite: String? = nil, participants: [String], answers: [Answer]
  ) {
    self.event = event
    self.composite = composite
    self.participants = participants
    self.answers = answers
  }

  /// What is to be said of the event.
  public var verdict: Verdict {
    let verdicts = Set(answers.map(\.verdict))
    for verdict in [Verdict.withheld, .undetermined, .dependsOnValue]
    where verdicts.contains(verdict) { return verdict }
    return .enabled
  }

  /// Those who withhold it.
  public var withheld: [Answer] { answers.filter { $0.obstacle != nil } }
}

/// Why a node does not take an event now.
public enum EventObstacle: Error, Hashable, Sendable {
  /// Its machine refuses the event in this state. That the transition is asynchronous is said only of an
  /// event that is taken together with others, which the node cannot be prepared for.
  case refused(Refusal)
  /// An asynchronous transition has not returned.
  case inTransition
  /// These pipes that lead from the node are full.
  case pipesFull([String])
  /// The node takes part in this synchronized event, which is under way.
  case inTransaction(TransactionID)
  /// The node is prepared for a synchronized event, and is not told the end.
  case inDoubt(InDoubtTransaction)
  /// The coordinator of the composite has no connection to the node.
  case notConnected
  /// It does not run, for this reason.
  case down(String)
  /// It has not answered for so long.
  case silent(Duration)
  /// It could not read what was asked.
  case unreadable(String)

  /// One word for programs.
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

extension EventObstacle: CustomStringConvertible {
  /// The reason in words.
  public var description: String { wording { Timestamp(nanoseconds: $0).description } }

  /// The same.
  /// - Parameter time: Words nanoseconds since 1970.
  package func wording(of time: (Int64) -> String) -> String {
    switch self {
    case .refused(.noTransition): "that state has no transition for it"
    case .refused(.guard): "the transition's guard says no"
    case .refused(.thrown(let error)): "its function throws: \(error)"
    case .refused(.asynchronous):
      "its transition is asynchronous, so that it can promise nothing: it never takes the event "
        + "together with others; state that it is self-contained, or give it a transition that does "
        + "not wait, and do the waiting in an effect"
    case .refused(.overdue): "its asynchronous transition had not returned within its time limit"
    case .refused(.stateTooLarge): Refusal.stateTooLarge.wording
    case .inTransition: "it is busy: an asynchronous transition has not returned"
    case .pipesFull(let names):
      names.isEmpty
        ? "it is busy: a pipe that leads from it is full"
        : "it is busy: full \(names.count == 1 ? "is its pipe" : "are its pipes") "
          + names.map { "'\($0)'" }.joined(separator: ", ")
    case .inTransaction(let transaction): "it is busy in transaction \(transaction)"
    case .inDoubt(let doubt):
      "it is in doubt in transaction \(doubt.transaction) (\(doubt.composite): \(doubt.event)) since "
        + time(doubt.since)
    case .notConnected: "it is not connected to its coordinator"
    case .down(let reason): "it does not run: \(reason)"
    case .silent(let limit): "it has not answered within \(limit.shortText)"
    case .unreadable(let problem): problem
    }
  }
}
