/// Answers for single steps of a machine, from any configuration, by the engine that a node has.
///
/// The rules for effects hold: an entry starts and cancels them. None of them runs, and no middleware is
/// called. Transitions that are asynchronous are not run either.
package final class StepOracle<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
> {
  /// Where a machine stands between two steps.
  package struct Configuration {
    package var state: State
    /// The effects that are under way, by name, sorted; one that runs twice is there twice.
    package var effects: [String]

    package init(state: State, effects: [String] = []) {
      self.state = state
      self.effects = effects
    }
  }

  package enum Answer {
    case moved(Configuration)
    /// An effect whose last event is refused is over all the same.
    case refused(Refusal, Configuration)
    /// Only running the transition would tell.
    case asynchronous
  }

  /// An effect or a feedback that a machine has.
  package struct Work: Hashable, Sendable {
    /// That of the output, or `feedback1`, `feedback2`, … in the order in which they were added.
    package let name: String
    /// Whether it may give more than one event.
    package let isSequence: Bool
    fileprivate let place: Place
  }

  fileprivate enum Place: Hashable {
    case output(tag: Int)
    case feedback(Int)
  }

  package let works: [Work]
  private let machine: StateMachine<State, Event, Output>
  private let runtime: Runtime<State, Event, Output>
  private let entered: (State) -> Void

  /// - Parameter entered: Called on each entry, before the machine's own pipes are sent anything.
  package init(
    _ machine: StateMachine<State, Event, Output>, _ runtime: Runtime<State, Event, Output>,
    entered: @escaping (State) -> Void
  ) {
    self.machine = machine
    self.runtime = runtime.withoutMiddleware
    self.entered = entered
    let names = EnumCases<Output>.names
    let effects = runtime.effects.values.sorted { $0.tag < $1.tag }
    works =
      effects.map {
        Work(name: names[$0.tag], isSequence: $0.isSequence, place: .output(tag: $0.tag))
      }
      + runtime.feedbacks.enumerated().map {
        Work(
          name: "feedback\($0 + 1)", isSequence: $1.isSequence, place: .feedback($0 + 1))
      }
  }

  /// Enters the initial state.
  package func start() -> Configuration {
    let engine = engine()
    engine.start()
    return configuration(of: engine)
  }

  /// Takes an event that comes from elsewhere.
  package func take(_ event: Event, in configuration: Configuration) -> Answer {
    step(engine(in: configuration), event)
  }

  /// Takes an event that an effect gives; `nil` where that effect is not under way.
  package func take(
    _ event: Event, of effect: String, in configuration: Configuration
  ) -> Answer? {
    let engine = engine(in: configuration)
    guard let (work, id) = find(effect, in: engine) else { return nil }
    _ = engine.effects.willTake(from: id, work.isSequence ? .oneOfMany : .last)
    return step(engine, event)
  }

  /// Ends an effect without an event; `nil` where it is not under way.
  package func end(_ effect: String, in configuration: Configuration) -> Configuration? {
    let engine = engine(in: configuration)
    guard let (_, id) = find(effect, in: engine) else { return nil }
    engine.effects.end(id)
    return self.configuration(of: engine)
  }

  // MARK: Engines

  /// An engine whose effects wait for a record, which is never made.
  private func engine() -> Engine<State, Event, Output> {
    let engine = Engine(machine: machine, runtime: runtime) { _ in }
    engine.effects.waitForRecords()
    engine.onProblem = { _ in }
    engine.onEntry = { [entered] state, _, _ in entered(state) }
    return engine
  }

  private func engine(in configuration: Configuration) -> Engine<State, Event, Output> {
    let engine = engine()
    engine.restore(configuration.state, version: 1)
    for name in configuration.effects {
      guard let work = works.first(where: { $0.name == name }) else { continue }
      switch work.place {
      case .output(let tag):
        guard let effect = runtime.effects[tag] else { continue }
        engine.effects.keep(
          RunningEffect(
            origin: EffectOrigin(version: 1), state: configuration.state, outputTag: tag,
            strategy: effect.strategy, priority: nil, run: { _ in }))
      case .feedback(let place):
        engine.effects.keep(
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
      return .moved(configuration(of: engine))
    case .refused(let refusal): return .refused(refusal, configuration(of: engine))
    case .suspended: return .asynchronous
    }
  }

  private func configuration(of engine: Engine<State, Event, Output>) -> Configuration {
    Configuration(
      state: engine.state,
      effects: engine.effects.underWay.compactMap { work(of: $0.effect)?.name }.sorted())
  }

  private func work(of effect: RunningEffect<State, Event>) -> Work? {
    let place =
      effect.outputTag.map { Place.output(tag: $0) } ?? .feedback(effect.origin.feedback)
    return works.first { $0.place == place }
  }

  private func find(
    _ name: String, in engine: Engine<State, Event, Output>
  ) -> (work: Work, id: UInt64)? {
    for (id, effect) in engine.effects.underWay {
      if let work = work(of: effect), work.name == name { return (work, id) }
    }
    return nil
  }
}

/// Counts steps and tells of each, as far as somebody asks for that: before it, ahead of all that it sends, and
/// after it.
@usableFromInline
package struct StepTrace<State, Event> {
  /// What counts them, where somebody wants that.
  @usableFromInline package var tally: TransitionTally<State, Event>?
  /// Whether they are told of.
  @usableFromInline private(set) var isOn = false
  /// Told of the event of a step and the state before it; answers whether ``hasMoved`` is to be called once
  /// it has. `nil` where no step is told of.
  @usableFromInline package var willMove: ((_ event: Event?, _ from: State) -> Bool)? {
    didSet { isOn = willMove != nil }
  }
  /// Called at the end of a step of which ``willMove`` said so.
  @usableFromInline package var hasMoved: (() -> Void)?

  /// Of the event that an effect has given last, the version of the step that started the effect.
  package var effectVersion: UInt64 = 0

  init() {}
}

/// Counts the steps of a machine by the case of the state that each left and the case of its event, as long as
/// somebody wants that.
///
/// The engine holds it, as counting is to cost a step next to nothing; that is why its memory is its maker's to
/// free, after the engine has let go of it.
@usableFromInline
package struct TransitionTally<State, Event> {
  /// By the tag of the state, and in that of the event.
  @usableFromInline let counts: UnsafeMutableBufferPointer<UInt64>
  /// How many cases are told apart; 1 for a type that has none.
  @usableFromInline let stateCount: Int
  @usableFromInline let eventCount: Int

  @export(interface)
  package init() {
    stateCount = max(1, EnumCases<State>.names.count)
    eventCount = max(1, EnumCases<Event>.names.count)
    counts = .allocate(capacity: stateCount * eventCount)
    counts.initialize(repeating: 0)
  }

  package func deallocate() { counts.deallocate() }

  @inlinable
  package func count(_ event: Event, in state: State) {
    let place =
      Self.tag(of: state, among: stateCount) &* eventCount &+ Self.tag(of: event, among: eventCount)
    if place < counts.count { counts[place] &+= 1 }
  }

  @inlinable
  static func tag<Value>(of value: Value, among count: Int) -> Int {
    count == 1 ? 0 : EnumCases<Value>.tag(of: value) ?? 0
  }

  /// What was counted, where it is not 0.
  /// - Parameter body: Given the tags of state and event.
  package func forEach(_ body: (_ state: Int, _ event: Int, _ count: UInt64) -> Void) {
    for (place, count) in counts.enumerated() where count > 0 {
      body(place / eventCount, place % eventCount, count)
    }
  }
}
