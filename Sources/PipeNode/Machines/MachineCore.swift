import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The objects that all parts of a hosted machine share: its engine, its inbox, its dead letters,
/// and the codecs of its states and events.
final class MachineCore<Hosted: Machine> {
  typealias State = Hosted.State
  typealias Event = Hosted.Event

  /// The engine that takes the next step. In a keyed node, this is the engine of the instance that
  /// the next event belongs to.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var engine: Engine<State, Event, Hosted.Output> {
    // The cached state belongs to another instance, whose version may be the same.
    didSet { encodedVersion = nil }
  }
  let log: NodeLog
  /// The name of the node.
  let node: String
  /// Whether `engine` has a state for the current event. `false` in a keyed node if the event's
  /// instance does not exist.
  var hasState = true
  let journal: Journal?
  let events = EventCodec<Event>(isSynthesized: Event._isSynthesizedCodable)
  let states = EventCodec<State>(isSynthesized: State._isSynthesizedCodable)
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var inbox = MachineInbox<Event, ClientInput<Event>>()
  var deadLetters: DeadLetters
  /// The event that is not tried again, because its step has ended the process too often; `nil` if
  /// there is none.
  let poisonEvent: PoisonEvent?
  /// The effect that becomes a dead letter, because it has ended earlier processes too often; `nil`
  /// if there is none.
  let poisonEffect: PoisonEffect?
  /// The effect that ended the last process and has made no progress since; `nil` if there is none.
  var suspectEffect: EffectOrigin?
  /// The effect that an operator has resent; `nil` as soon as its start is recorded.
  var resentEffect: EffectOrigin?
  /// The timers of all instances of a keyed node; `nil` in a node without instances.
  var instanceTimers: InstanceTimers?
  let meter: StateMeter<State>
  /// The state that was last encoded as JSON.
  @exclusivity(unchecked)
  private var encodedState: [UInt8] = []
  /// The version of the encoded state, which identifies the state; `nil` if there is none.
  @exclusivity(unchecked)
  private var encodedVersion: UInt64?
  /// The machine's participant in synchronized events; `nil` if the machine takes part in none.
  @exclusivity(unchecked)
  private(set) var participant: Participant?
  /// The configuration of the node's synchronized events; `nil` if there are none.
  var participation: NodeConfiguration.Participant?
  /// Whether the machine accepts inputs: it has started, and has not stopped.
  @exclusivity(unchecked)
  private(set) var isStarted = false
  var onEnd: ((String?) -> Void)?
  /// Called with each event that is refused or postponed, as long as a client subscribes to
  /// refusals.
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
    poisonEvent = try journal.flatMap { try PoisonEvent(of: $0, log: log) }
    suspectEffect = journal?.fatalEffect
    poisonEffect =
      if let journal, let suspectEffect {
        try PoisonEffect(suspectEffect, of: journal, log: log)
      } else { nil }
  }

  func begin() { isStarted = true }
  func end() { isStarted = false }

  /// Makes the machine take part in synchronized events through `participant`.
  @export(interface)
  func join(_ participant: Participant) {
    self.participant = participant
    let previousMustWait = engine.mustWait
    engine.mustWait = { participant.isFrozen || previousMustWait?() == true }
  }

  /// Returns the reason to refuse an event that was sent to this machine instead of a composite.
  /// Returns `nil` if the machine may take the event alone.
  func reasonToRefuse(unsynchronized event: Event) -> String? {
    guard let participation else { return nil }
    return participation.reasonToRefuse(unsynchronized: EnumCases.name(of: event))
  }

  // MARK: States and events as JSON

  /// Returns a state as JSON. Each state is encoded only once, even if several reports and records
  /// contain it.
  /// - Parameter version: The version of the state.
  func encode(_ state: State, version: UInt64) throws -> [UInt8] {
    if encodedVersion != version {
      encodedVersion = nil
      // Reuses the buffer, unless a record still shares it.
      encodedState.removeAll(keepingCapacity: true)
      try states.encode(state, into: &encodedState)
      encodedVersion = version
    }
    return encodedState
  }

  /// Returns a state of the current version or an earlier version as JSON.
  func encode(earlier state: State, version: UInt64) throws -> [UInt8] {
    encodedVersion == version ? encodedState : try states.encode(state)
  }

  /// The timer of the current state that expires first; `nil` if no timer is running.
  /// - Parameter findsTarget: Whether to evaluate the timer's transition, to find the name of the
  ///   next state.
  @export(interface)
  func runningTimer(findsTarget: Bool) -> RunningTimer? {
    guard let timers = engine.timers, !timers.isParked, let next = timers.runningTimers.first,
      let remaining = timers.remainingTime
    else { return nil }
    return timer(
      next, due: WallClock.nanoseconds &+ remaining.clampedNanoseconds, findsTarget: findsTarget)
  }

  /// Returns a description of a timer.
  /// - Parameters:
  ///   - due: The time at which the timer expires. Unit: nanoseconds since 1970.
  ///   - findsTarget: Whether to evaluate the timer's transition, to find the name of the next
  ///     state.
  func timer(_ timer: StateTimer, due: Int64, findsTarget: Bool) -> RunningTimer {
    var target: String?
    if findsTarget, case .next(let next)? = engine.machine.fire(timer.index, in: engine.state) {
      target = EnumCases<State>.name(of: next)
    }
    return RunningTimer(after: timer.duration.shortText, due: due, target: target)
  }

  /// The current state as JSON; empty if the state cannot be encoded, or if there is no state.
  var stateBytes: [UInt8] {
    hasState ? (try? encode(engine.state, version: engine.version)) ?? [] : []
  }

  /// Returns the hash of the current state; `nil` if the state cannot be encoded.
  func stateHash(by function: StateHash) -> UInt64? {
    guard (try? encode(engine.state, version: engine.version)) != nil else { return nil }
    return encodedState.withUnsafeBytes { function.hash(of: $0) }
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

  // MARK: Events of other schema versions

  /// Decodes an event that has the schema version `schema`.
  func content(_ bytes: UnsafeRawBufferPointer, schema: Int) -> PipeEvent<Event>.Content {
    if schema == Hosted.schema { return PipeEvent.Content(bytes, readBy: events) }
    let bytes = Array(bytes)
    do {
      return .event(try Hosted.decodeEvent(bytes, schema: schema, by: events))
    } catch {
      return .undecodable("\(error)", JSONValue(shown: bytes))
    }
  }

  // MARK: Dead letters

  /// Parks an effect: stores it as a dead letter. Cancels the effect if there are too many dead
  /// letters.
  /// - Parameter key: The key of the effect's instance; `nil` in a node without instances.
  @export(interface)
  func park(_ effect: PoisonEffect, of state: State, in key: InstanceKey? = nil) {
    let isTimer = effect.origin.feedback == EffectOrigin.timers
    let name =
      isTimer
      ? EnumCases<State>.name(of: state) ?? TypeName.of(State.self)
      : engine.effects.name(of: effect.origin) ?? "?"
    let noun = effect.origin.noun
    let isKept = deadLetters.add(
      effect.deadLetter(
        named: name, state: try? JSONValue(parsing: states.encode(state)), in: key))
    let summary =
      "\(noun) '\(name)' of step \(effect.origin.version)"
      + (key.map { " of instance '\($0)'" } ?? "")
      + " ended the node's process \(effect.crashCount) "
      + "times in a row"
    if isKept {
      log.warning(
        "\(summary); the \(noun) is now dead letter \(deadLetters.lastID) and does not run again; "
          + "'orchestrator dead-letters \(node)' shows the dead letter, runs the \(noun) again "
          + "(resend) or discards it (drop)")
    } else {
      discard(effect.origin)
      log.warning("\(summary); the \(noun) is cancelled: the limit of dead letters is reached")
    }
  }

  /// Resumes a parked effect, or parked timers.
  /// - Returns: Whether the effect runs again. `false` if the effect has ended, or if a step has
  ///   cancelled the effect.
  func unpark(_ origin: EffectOrigin) -> Bool {
    guard origin.feedback == EffectOrigin.timers else { return engine.effects.unpark(origin) }
    if let instanceTimers { return instanceTimers.unpark(origin) }
    return engine.timers?.unpark(ofVersion: origin.version) ?? false
  }

  /// Cancels a parked effect, or parked timers, for good.
  func discard(_ origin: EffectOrigin) {
    guard origin.feedback == EffectOrigin.timers else { return engine.effects.discard(origin) }
    if let instanceTimers { return instanceTimers.discard(origin) }
    engine.timers?.discard(ofVersion: origin.version)
  }

  /// Notes that an effect has started or has produced an event, and so has not ended the process
  /// again.
  @export(interface)
  func noteProgress(of effect: EffectOrigin, in journal: Journal) throws {
    if effect == resentEffect {
      (resentEffect, suspectEffect) = (nil, effect)
    } else if effect == suspectEffect {
      suspectEffect = nil
      try journal.resetAttempts(of: effect)
    }
  }

  /// Applies the pipe's refusal policy to an event that was permanently refused.
  /// - Returns: The reason why the node must fail; `nil` if the event became a dead letter or
  ///   counts as lost.
  @export(interface)
  func dispose(
    of event: JSONValue, _ sequence: UInt64, from pipe: String, because reason: String,
    _ policy: RefusalPolicy, schema: Int = Hosted.schema
  ) -> String? {
    let refused = RefusedEvent(
      pipe: pipe, sequence: sequence, event: event, reason: reason, schema: schema,
      state: stateJSON,
      stateText: hasState ? stateText : nil, version: hasState ? engine.version : 0)
    return refused.dispose(policy, in: &deadLetters, log: log)
  }
}

extension Machine {
  /// Returns the machine's description with the given parameters. If the parameters cannot be
  /// decoded, the description contains the error.
  @export(interface)
  package static func description(parameters: JSONValue) -> MachineDescription {
    do {
      return try describe(Parameters(parameters: migrated(parameters: parameters)))
    } catch {
      return MachineDescription(
        machine: name, error: "\(error)", parameter: (error as? ParametersError)?.parameter)
    }
  }

  /// Returns the content of a node that hosts the machine.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    let hosting = try HostingContext.of(name, hosting)
    let parameters = try Parameters(parameters: migrated(parameters: hosting.parameters))
    hosting.journal?.schema = schema
    if let instances = hosting.instances {
      return try KeyedContent<Self>(parameters: parameters, instances, hosting: hosting).hosted()
    }
    return try MachineContent<Self>(parameters: parameters, hosting: hosting).hosted()
  }

  /// Checks that `state` is a state of the machine.
  /// - Throws: ``NodeSetupError`` if the machine's state type cannot decode the JSON.
  @export(interface)
  static func check(state: JSONValue) throws {
    do {
      _ = try EventCodec<State>().decode(state.bytes)
    } catch {
      throw NodeSetupError("machine '\(name)': the constant \(error)")
    }
  }
}
