import PipeMachines
import PipeWire

/// The events of a node or a composite: whether each event is accepted now and, if not, which nodes
/// block it.
public struct EnabledEvents: Hashable, Sendable {
  /// The name of the node, or of the composite.
  public var name: String
  /// The kind of the node.
  public var kind: NodeInformation.Kind
  /// The state as JSON; `nil` if it is unknown.
  public var state: JSONValue?
  /// For a node, the number of its steps. For a composite, the number of states that it has
  /// published after the initial state.
  public var version: UInt64?
  /// For a node, all events of its alphabet. An event that several composites synchronize is listed
  /// once for each of these composites. For a composite, first the events that it synchronizes,
  /// then the events that a single component accepts on its own.
  public var events: [EventEnabledness]
  /// The timer that is due first in the node's state; `nil` for a composite, and if no timer is
  /// running.
  public var timer: RunningTimer?
  /// For each node whose states are structs, the names of the structs' fields.
  package var stateFields: [String: [String]]

  package init(
    name: String, kind: NodeInformation.Kind, state: JSONValue?, version: UInt64?,
    events: [EventEnabledness], timer: RunningTimer? = nil, stateFields: [String: [String]] = [:]
  ) {
    self.timer = timer
    self.name = name
    self.kind = kind
    self.state = state
    self.version = version
    self.events = events
    self.stateFields = stateFields
  }

  /// The best verdict on any of the events, in this order: `enabled`, `dependsOnValue`,
  /// `undetermined`, `ignored`, `blocked`.
  public var verdict: EventEnabledness.Verdict {
    typealias Verdict = EventEnabledness.Verdict
    let verdicts = Set(events.map(\.verdict))
    for verdict in [Verdict.enabled, .dependsOnValue, .undetermined, .ignored]
    where verdicts.contains(verdict) {
      return verdict
    }
    return .blocked
  }
}

/// Whether a node or composite would accept an event now and, if not, which nodes block the event
/// and why.
///
/// The client asks each participant of a synchronized event separately, so the answers may be from
/// slightly different times. Each answer contains the participant's version at the time of the
/// answer.
public struct EventEnabledness: Hashable, Sendable {
  /// A verdict on an event.
  public enum Verdict: String, Codable, Hashable, Sendable {
    /// All participants accept the event.
    case enabled
    /// All participants ignore the event: it is consumed, and nothing changes.
    case ignored
    /// A participant or the coordinator blocks the event.
    case blocked
    /// The answer depends on the event's associated values: a guard checks them, and the question
    /// did not contain them.
    case dependsOnValue
    /// Only sending the event shows whether it is accepted, because the transition is asynchronous
    /// or the machine is an asynchronous function.
    case undetermined
  }

  /// The answer of one participant.
  public struct Answer: Hashable, Sendable {
    /// The name of the node. If the composite's coordinator blocks the event, the name of the
    /// coordinator.
    public var participant: String
    /// The participant's state as JSON; `nil` if the participant has not reported it.
    public var state: JSONValue?
    /// The number of the participant's steps.
    public var version: UInt64?
    /// The participant's verdict on the event, regardless of the other participants.
    public var verdict: Verdict
    /// The reason why the participant blocks the event; `nil` if it does not block the event.
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

  /// The event's case and the fields of its associated values.
  public var event: CaseDescription
  /// The composite that synchronizes the event; `nil` if a single node accepts the event on its
  /// own.
  public var composite: String?
  /// The nodes that process the event together: all of them accept it, or none does.
  public var participants: [String]
  /// The answers of the participants. If the coordinator blocks the event, its answer comes first.
  public var answers: [Answer]

  package init(
    event: CaseDescription, composite: String? = nil, participants: [String], answers: [Answer]
  ) {
    self.event = event
    self.composite = composite
    self.participants = participants
    self.answers = answers
  }

  /// The combined verdict of all participants on the event.
  public var verdict: Verdict {
    let verdicts = Set(answers.map(\.verdict))
    for verdict in [Verdict.blocked, .undetermined, .dependsOnValue]
    where verdicts.contains(verdict) { return verdict }
    return verdicts == [.ignored] ? .ignored : .enabled
  }

  /// The answers of the nodes that block the event.
  public var blockingAnswers: [Answer] { answers.filter { $0.blocker != nil } }
}
