/// The kind of a machine's response to an event that the machine does not refuse.
package enum TransitionKind: String, Codable, Hashable, Sendable {
  /// The machine enters a state.
  case external
  /// The values of the state change, and the machine enters no state.
  case `internal`
  /// The event is consumed, and nothing changes.
  case ignored
}

/// Evaluates single steps of a machine, from any configuration, with the same engine that a node
/// uses.
///
/// An entry into a state starts and cancels effects, but no effect runs. Middleware is not called,
/// and asynchronous transitions are not run.
package final class StepEvaluator<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
> {
  /// The state and the unfinished effects of a machine between two steps.
  package struct Configuration {
    package var state: State
    /// The sorted names of the effects that have not ended. If an effect is running twice, its name
    /// is listed twice.
    package var effects: [String]

    package init(state: State, effects: [String] = []) {
      self.state = state
      self.effects = effects
    }
  }

  package enum Answer {
    case accepted(Configuration, TransitionKind)
    /// The event is refused. If the event was the last event of an effect, the effect has ended
    /// nevertheless.
    case refused(Refusal, Configuration)
    /// The transition is asynchronous, so its outcome is unknown without running it.
    case asynchronous
    /// The timer that is due first has fired.
    case fired(StateTimer, Configuration)
    /// The machine enters a state with a timer that cannot run.
    case failed(reason: String)
  }

  /// An effect or a feedback of a machine.
  package struct EffectSource: Hashable, Sendable {
    /// The name of the output, or `feedback1`, `feedback2`, … in the order in which the feedbacks
    /// were added.
    package let name: String
    /// Whether the effect may produce more than one event.
    package let isSequence: Bool
    fileprivate let position: Position
  }

  fileprivate enum Position: Hashable {
    case output(tag: Int)
    case feedback(Int)
  }

  package let effects: [EffectSource]
  private let machine: StateMachine<State, Event, Output>
  private let runtime: Runtime<State, Event, Output>
  private let entered: (State) -> Void
  private var sequenceEngine: Engine<State, Event, Output>?
  /// Whether any state of the machine may have timers.
  package let hasTimers: Bool

  /// Creates an evaluator for a machine and its runtime.
  /// - Parameter entered: Called on each entry, before events are sent into the machine's own
  ///   pipes.
  package init(
    _ machine: StateMachine<State, Event, Output>, _ runtime: Runtime<State, Event, Output>,
    entered: @escaping (State) -> Void
  ) {
    self.machine = machine
    self.runtime = runtime.withoutMiddleware
    self.entered = entered
    hasTimers = !machine.timerPresence.isNone
    let names = EnumCases<Output>.names
    let outputs = runtime.effects.values.sorted { $0.tag < $1.tag }
    effects =
      outputs.map {
        EffectSource(name: names[$0.tag], isSequence: $0.isSequence, position: .output(tag: $0.tag))
      }
      + runtime.feedbacks.enumerated().map {
        EffectSource(
          name: "feedback\($0 + 1)", isSequence: $1.isSequence, position: .feedback($0 + 1))
      }
  }

  /// Returns the configuration after entry into the initial state.
  package func start() -> Configuration {
    let engine = makeEngine()
    engine.start()
    // An error in the initial state is not reported here, but in the machine's description.
    return configuration(of: engine)
  }

  /// Evaluates an event that does not come from an effect of the machine.
  package func evaluate(_ event: Event, in configuration: Configuration) -> Answer {
    step(makeEngine(in: configuration), event)
  }

  /// Evaluates an event of an effect; `nil` if the effect is not running.
  package func evaluate(
    _ event: Event, of effect: String, in configuration: Configuration
  ) -> Answer? {
    let engine = makeEngine(in: configuration)
    guard let (work, id) = find(effect, in: engine) else { return nil }
    _ = engine.effects.willTakeEvent(from: id, work.isSequence ? .oneOfMany : .last)
    return step(engine, event)
  }

  /// Ends an effect without an event; `nil` if the effect is not running.
  package func endEffect(_ effect: String, in configuration: Configuration) -> Configuration? {
    let engine = makeEngine(in: configuration)
    guard let (_, id) = find(effect, in: engine) else { return nil }
    engine.effects.end(id)
    return self.configuration(of: engine)
  }

  /// Fires the state's timer that is due first. If the transition of that timer is refused, fires
  /// the next timer. Returns `nil` if the state has no timer.
  ///
  /// The timers of a state start together, so their durations alone determine their order.
  package func fireTimer(in configuration: Configuration) throws -> Answer? {
    var refusal: Refusal?
    for timer in try machine.timers(in: configuration.state) {
      switch machine.fire(timer.index, in: configuration.state) {
      case .next(let next):
        let engine = makeEngine(in: configuration)
        engine.take(nil, leadingTo: next, cause: "")
        if let failure { return .failed(reason: failure) }
        return .fired(timer, self.configuration(of: engine))
      case .refused(let reason): refusal = reason
      case .stays, .ignored, .suspended, nil: continue
      }
    }
    return refusal.map { .refused($0, configuration) }
  }

  // MARK: Sequences of steps

  /// The outcome of one of several steps that follow one another.
  package enum SequenceAnswer {
    case taken(TransitionKind)
    case refused(Refusal)
    /// The transition is asynchronous, so its outcome is unknown without running it.
    case asynchronous
    /// The machine enters a state with a timer that cannot run.
    case failed(reason: String)
  }

  /// Begins a sequence of steps in a state.
  package func beginSequence(in state: State) {
    sequenceEngine = makeEngine(in: Configuration(state: state))
  }

  /// The state after the steps of the sequence so far.
  /// - Precondition: ``beginSequence(in:)`` was called.
  package var sequenceState: State { sequenceEngine!.state }

  /// Takes the next step of the sequence: the step of an event or, if `event` is `nil`, of the
  /// timer that is due first. After `asynchronous` and `failed`, begin another sequence.
  /// - Precondition: ``beginSequence(in:)`` was called.
  package func advanceSequence(on event: Event?) throws -> SequenceAnswer {
    // The unfinished effects of earlier steps must not accumulate, and no effect ever ends here. So
    // the sequence continues with a new engine, which has no effects.
    if hasEffects { beginSequence(in: sequenceState) }
    let engine = sequenceEngine!
    guard let event else { return try advanceTimer(engine) }
    switch machine.step(engine.state, event) {
    case .next(let next):
      engine.take(event, leadingTo: next, cause: "")
      return failure.map { .failed(reason: $0) } ?? .taken(.external)
    case .stays(let next):
      engine.take(event, leadingTo: next, isInternal: true, cause: "")
      return failure.map { .failed(reason: $0) } ?? .taken(.internal)
    case .ignored: return .taken(.ignored)
    case .refused(let refusal): return .refused(refusal)
    case .suspended: return .asynchronous
    }
  }

  private func advanceTimer(_ engine: Engine<State, Event, Output>) throws -> SequenceAnswer {
    var refusal = Refusal.noTransition
    for timer in try machine.timers(in: engine.state) {
      switch machine.fire(timer.index, in: engine.state) {
      case .next(let next):
        engine.take(nil, leadingTo: next, cause: "")
        return failure.map { .failed(reason: $0) } ?? .taken(.external)
      case .refused(let reason): refusal = reason
      case .stays, .ignored, .suspended, nil: continue
      }
    }
    return .refused(refusal)
  }

  private var hasEffects: Bool {
    hasTimers || !runtime.effects.isEmpty || !runtime.feedbacks.isEmpty
  }

  // MARK: Making engines

  /// The reason why the machine cannot continue after the last step; `nil` if it can continue.
  private var failure: String?

  /// Makes an engine whose effects start after the step is recorded. No step is ever recorded, so
  /// no effect runs.
  private func makeEngine() -> Engine<State, Event, Output> {
    let engine = Engine(machine: machine, runtime: runtime) { _ in }
    engine.effects.deferUntilRecorded()
    failure = nil
    engine.onError = { _ in }
    engine.onFailure = { [unowned self] in failure = $0 }
    // The caller decides when a timer fires, so the engine sets no alarm.
    engine.timers?.letOwnerRunTimers { _ in }
    engine.onEntry = { [entered] state, _, _ in entered(state) }
    engine.onInternalTransition = { _, _, _ in }
    return engine
  }

  private func makeEngine(in configuration: Configuration) -> Engine<State, Event, Output> {
    let engine = makeEngine()
    engine.restore(configuration.state, version: 1)
    for name in configuration.effects {
      guard let work = effects.first(where: { $0.name == name }) else { continue }
      switch work.position {
      case .output(let tag):
        guard let effect = runtime.effects[tag] else { continue }
        engine.effects.restoreEffect(
          RunningEffect(
            origin: EffectOrigin(version: 1), state: configuration.state, outputTag: tag,
            strategy: effect.strategy, priority: nil, run: { _ in }))
      case .feedback(let place):
        engine.effects.restoreEffect(
          RunningEffect(
            origin: EffectOrigin(version: 1, feedback: place), state: configuration.state,
            strategy: .continueWhenAnyState, priority: nil, run: { _ in }))
      }
    }
    return engine
  }

  private func step(_ engine: Engine<State, Event, Output>, _ event: Event) -> Answer {
    switch machine.step(engine.state, event) {
    case .next(let next):
      engine.take(event, leadingTo: next, cause: "")
      if let failure { return .failed(reason: failure) }
      return .accepted(configuration(of: engine), .external)
    case .stays(let next):
      engine.take(event, leadingTo: next, isInternal: true, cause: "")
      if let failure { return .failed(reason: failure) }
      return .accepted(configuration(of: engine), .internal)
    case .ignored: return .accepted(configuration(of: engine), .ignored)
    case .refused(let refusal): return .refused(refusal, configuration(of: engine))
    case .suspended: return .asynchronous
    }
  }

  private func configuration(of engine: Engine<State, Event, Output>) -> Configuration {
    Configuration(
      state: engine.state,
      effects: engine.effects.unfinishedEffects.compactMap { source(of: $0.effect)?.name }.sorted())
  }

  private func source(of effect: RunningEffect<State, Event>) -> EffectSource? {
    let place =
      effect.outputTag.map { Position.output(tag: $0) } ?? .feedback(effect.origin.feedback)
    return effects.first { $0.position == place }
  }

  private func find(
    _ name: String, in engine: Engine<State, Event, Output>
  ) -> (work: EffectSource, id: UInt64)? {
    for (id, effect) in engine.effects.unfinishedEffects {
      if let work = source(of: effect), work.name == name { return (work, id) }
    }
    return nil
  }
}

/// A counter and a reporter of steps, both optional. The beginning of a step is reported before the
/// machine takes the step, and so before the events that the step sends. The end of the step is
/// reported separately.
@usableFromInline
package struct StepTrace<State, Event> {
  /// The counter of steps, if one is installed.
  @usableFromInline package var tally: TransitionTally<State, Event>?
  /// Whether steps are reported.
  @usableFromInline private(set) var isOn = false
  /// Called with the event of a step and the state before the step. Returns whether ``didTakeStep``
  /// must be called after the step. `nil` if no steps are reported.
  @usableFromInline package var willTakeStep: ((_ event: Event?, _ from: State) -> Bool)? {
    didSet { isOn = willTakeStep != nil }
  }
  /// Called at the end of a step for which ``willTakeStep`` returned `true`.
  @usableFromInline package var didTakeStep: (() -> Void)?
  /// Called with each event that the state ignores; `nil` if these events are not reported.
  package var didIgnore: ((_ event: Event) -> Void)?

  /// Whether the step that ``didTakeStep`` reports is an internal transition, which enters no
  /// state.
  package var isInternal = false
  /// Whether the transition of the step was asynchronous.
  package var isAsynchronous = false
  /// For the effect whose event was processed last: the version of the step that started the
  /// effect.
  package var effectVersion: UInt64 = 0

  init() {}
}

/// Counts the steps of a machine by the case of the previous state and the case of the event.
///
/// The engine only has a pointer to the counts, so counting needs no reference counting and has
/// almost no cost. The caller that made the counter must call ``deallocate()`` when the engine no
/// longer uses the counter.
@usableFromInline
package struct TransitionTally<State, Event> {
  /// The counts, by the tag of the state and then by the tag of the event.
  @usableFromInline let counts: UnsafeMutableBufferPointer<UInt64>
  /// The number of cases of the state type; 1 for a type without cases.
  @usableFromInline let stateCount: Int
  @usableFromInline let eventCount: Int

  @export(interface)
  package init() {
    stateCount = max(1, EnumCases<State>.names.count)
    eventCount = max(1, EnumCases<Event>.names.count)
    // Each state has one more count, for its timers.
    counts = .allocate(capacity: stateCount * (eventCount + 1))
    counts.initialize(repeating: 0)
  }

  package func deallocate() { counts.deallocate() }

  @inlinable
  package func countTransition(_ event: Event, in state: State) {
    let place =
      Self.tag(of: state, among: stateCount) &* eventCount &+ Self.tag(of: event, among: eventCount)
    if place < stateCount &* eventCount { counts[place] &+= 1 }
  }

  /// Counts a step of a timer.
  func countTimer(in state: State) {
    let place = stateCount * eventCount + Self.tag(of: state, among: stateCount)
    if place < counts.count { counts[place] &+= 1 }
  }

  @inlinable
  static func tag<Value>(of value: Value, among count: Int) -> Int {
    count == 1 ? 0 : EnumCases<Value>.tag(of: value) ?? 0
  }

  /// Calls `body` for each count that is not 0.
  /// - Parameter body: Receives the tags of state and event, and the count. The tag of the event is
  ///   `nil` for the steps of timers.
  package func forEach(_ body: (_ state: Int, _ event: Int?, _ count: UInt64) -> Void) {
    let eventSteps = stateCount * eventCount
    for (place, count) in counts.enumerated() where count > 0 {
      if place < eventSteps {
        body(place / eventCount, place % eventCount, count)
      } else {
        body(place - eventSteps, nil, count)
      }
    }
  }
}
