import PipeJournal
import PipeMachines
import PipeWire

/// The parts of a hosted machine share this core: its engine, its inbox, its dead letters, and the
/// codecs of its states and events.
final class MachineCore<Hosted: Machine> {
  typealias State = Hosted.State
  typealias Event = Hosted.Event

  /// The engine that takes the next step. A keyed node sets the engine of the event's instance.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var engine: Engine<State, Event, Hosted.Output> {
    // Another instance has other states of the same versions.
    didSet { encoded = nil }
  }
  let log: NodeLog
  /// The node's name.
  let node: String
  /// Whether the engine's state is the state that an event meets. `false` for an event of a keyed
  /// node that has no instance.
  var hasState = true
  let journal: Journal?
  let events = EventCodec<Event>(isSynthesized: Event._isSynthesizedCodable)
  let states = EventCodec<State>(isSynthesized: State._isSynthesizedCodable)
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var inbox = MachineInbox<Event, ClientInput<Event>>()
  var deadLetters: DeadLetters
  /// The event that is not retried.
  let poison: PoisonEvent?
  /// The effect that is parked at this start of the node.
  let poisonEffect: PoisonEffect?
  /// The effect that ended the previous process and has made no progress since.
  var suspectEffect: EffectOrigin?
  /// The effect that is resent, until its start is recorded.
  var resentEffect: EffectOrigin?
  let meter: StateMeter<State>
  /// The state that was last encoded as JSON, and its version. A version has one state.
  @exclusivity(unchecked)
  private var encoded: (version: UInt64, json: [UInt8])?
  /// The machine's participant in synchronized events, if it has one.
  @exclusivity(unchecked)
  private(set) var participant: Participant?
  /// Whether the machine takes inputs: it was started, and not stopped.
  @exclusivity(unchecked)
  private(set) var isStarted = false
  var onEnd: ((String?) -> Void)?
  /// Called with each event that is refused or postponed, while a subscriber asks for refusals.
  var onRefusal: ((RefusedInput) -> Void)?

  @export(interface)
  init(
    _ engine: Engine<State, Event, Hosted.Output>, _ meter: StateMeter<State>,
    hosting: HostingContext
  ) throws {
    self.engine = engine
    self.meter = meter
    log = hosting.log
    node = hosting.node
    journal = hosting.journal
    deadLetters = DeadLetters(journal: hosting.journal)
    let (journal, log) = (hosting.journal, hosting.log)
    poison = try journal.flatMap { try PoisonEvent(of: $0, log: log) }
    suspectEffect = journal?.fatalEffect
    poisonEffect =
      if let journal, let suspectEffect {
        try PoisonEffect(suspectEffect, of: journal, log: log)
      } else { nil }
  }

  func begin() { isStarted = true }
  func end() { isStarted = false }

  /// Lets the machine take part in synchronized events through the participant.
  @export(interface)
  func join(_ participant: Participant) {
    self.participant = participant
    let previousMustWait = engine.mustWait
    engine.mustWait = { participant.isFrozen || previousMustWait?() == true }
  }

  /// Returns the reason to refuse an event that was not sent to a composite; `nil` if the
  /// machine may take it.
  func problem(withDirect event: Event) -> String? {
    guard let participant else { return nil }
    return participant.problem(withDirect: EnumCases.name(of: event))
  }

  // MARK: JSON

  /// Returns a state as JSON. A state is encoded once, however many reports and records contain it.
  /// - Parameter version: The version with this state.
  func encode(_ state: State, version: UInt64) throws -> [UInt8] {
    if let encoded, encoded.version == version { return encoded.json }
    let json = try states.encode(state)
    encoded = (version, json)
    return json
  }

  /// Returns a state of an earlier version, or of the current version, as JSON.
  func encode(earlier state: State, version: UInt64) throws -> [UInt8] {
    if let encoded, encoded.version == version { return encoded.json }
    return try states.encode(state)
  }

  /// The current state as JSON; empty if it cannot be encoded.
  var stateBytes: [UInt8] {
    hasState ? (try? encode(engine.state, version: engine.version)) ?? [] : []
  }

  var stateJSON: JSONValue? {
    guard hasState else { return nil }
    return (try? encode(engine.state, version: engine.version)).flatMap {
      try? JSONValue(parsing: $0)
    }
  }

  @export(interface)
  var stateText: String {
    (try? encode(engine.state, version: engine.version)).map { String(decoding: $0, as: UTF8.self) }
      ?? "?"
  }

  @export(interface)
  func json(of event: Event) -> JSONValue {
    (try? JSONValue(parsing: events.encode(event))) ?? .null
  }

  // MARK: Dead letters

  /// Makes a dead letter of a parked effect.
  /// - Parameter key: The key of the effect's instance; `nil` in a node with one machine.
  @export(interface)
  func park(_ effect: PoisonEffect, of state: State, in key: InstanceKey? = nil) {
    let name = engine.effects.name(of: effect.origin) ?? "?"
    let isKept = deadLetters.add(
      effect.deadLetter(
        named: name, state: try? JSONValue(parsing: states.encode(state)), in: key))
    let summary =
      "effect '\(name)' of step \(effect.origin.version)"
      + (key.map { " of instance '\($0)'" } ?? "") + " ended the node's process \(effect.count) "
      + "times in a row"
    if isKept {
      log.warning(
        "\(summary); the effect is now dead letter \(deadLetters.count) and does not run again; "
          + "'orchestrator dead-letters \(node)' shows the dead letter, runs the effect again "
          + "(resend) or discards it (drop)")
    } else {
      engine.effects.discard(effect.origin)
      log.warning("\(summary); the effect is cancelled: the limit of dead letters is reached")
    }
  }

  /// Notes that an effect has started, or has produced an event: it did not end the process again.
  @export(interface)
  func noteProgress(of effect: EffectOrigin, in journal: Journal) throws {
    if effect == resentEffect {
      (resentEffect, suspectEffect) = (nil, effect)
    } else if effect == suspectEffect {
      suspectEffect = nil
      try journal.resetAttempts(of: effect)
    }
  }

  /// Applies the pipe's refusal policy to an event that is refused for good.
  /// - Returns: The reason why the node must fail; `nil` if the event is a dead letter now.
  @export(interface)
  func dispose(
    of event: JSONValue, _ sequence: UInt64, from pipe: String, because reason: String,
    _ policy: RefusalPolicy
  ) -> String? {
    let refused = RefusedEvent(
      pipe: pipe, sequence: sequence, event: event, reason: reason, state: stateJSON,
      stateText: hasState ? stateText : nil, version: hasState ? engine.version : 0)
    return refused.dispose(policy, in: &deadLetters, log: log)
  }
}

extension Machine {
  /// Returns the machine's description with these parameters. If they do not decode, the
  /// description carries the problem.
  @export(interface)
  package static func description(parameters: JSONValue) -> MachineDescription {
    do {
      return try describe(Parameters(parameters: parameters))
    } catch {
      return MachineDescription(
        machine: name, error: "\(error)", parameter: (error as? ParametersError)?.parameter)
    }
  }

  /// The content of a node that hosts the machine.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    let hosting = try HostingContext.of(name, hosting)
    let parameters = try Parameters(parameters: hosting.parameters)
    if let instances = hosting.instances {
      return try KeyedContent<Self>(parameters: parameters, instances, hosting: hosting).hosted()
    }
    return try MachineContent<Self>(parameters: parameters, hosting: hosting).hosted()
  }

  /// Checks that the JSON is a state of the machine, and throws otherwise.
  @export(interface)
  static func check(state: JSONValue) throws {
    do {
      _ = try EventCodec<State>().decode(state.bytes)
    } catch {
      throw NodeSetupError("machine '\(name)': the constant \(error)")
    }
  }
}
