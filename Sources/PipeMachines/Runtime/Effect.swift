/// The async work of one output case.
package struct Effect<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>: Sendable {
  typealias Deliver = EffectDelivery<Event>

  let tag: Int
  let priority: TaskPriority?
  let strategy: ExecutionStrategy<State>
  /// Whether it may give more than one event.
  var isSequence = false
  /// What it may give, where that is declared.
  var gives: GivenEvents<Event>?
  let run: @Sendable (Output, Deliver) async -> Void
}

// In what follows, `nonisolated(unsafe)` hands a function over to its effects: it came as `sending`,
// so nobody else holds what it captured. Where one effect may run several times at once, what it
// captured must bear that.

// Effects of one event.
extension Runtime {
  /// Executes `effect` when `output` is produced, and takes the event that it returns.
  /// - Parameter gives: What it may give, for `orchestrator check --explore`; `nil` leaves that to be
  ///   assumed.
  public func map(
    output: Output, to effect: sending @escaping () async -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let tag = CasePattern(value: output).tag
    return adding(
      gives,
      Effect(tag: tag, priority: priority, strategy: strategy) { _, deliver in
        if let event = await effect() { _ = await deliver(event, .last) }
      })
  }

  /// Executes `effect` on the associated values of the output, and takes the event it returns.
  public func map<each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        let values = place.payload(of: output, repeat (each Value).self)
        if let event = await effect(repeat each values) { _ = await deliver(event, .last) }
      })
  }
}

// Effects of many events.
extension Runtime {
  /// Executes `effect` when `output` is produced, and takes every event of its sequence.
  public func map<Events: AsyncSequence & SendableMetatype>(
    output: Output, to effect: sending @escaping () async -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where
    Events.Element == Event, Events.Failure == Never, Events.AsyncIterator: SendableMetatype
  {
    nonisolated(unsafe) let effect = effect
    let tag = CasePattern(value: output).tag
    return adding(
      gives,
      Effect(tag: tag, priority: priority, strategy: strategy, isSequence: true) { _, deliver in
        for await event in await effect() {
          guard await deliver(event, .oneOfMany) else { return }
        }
      })
  }

  /// Executes `effect` on the associated values, and takes every event of its sequence.
  public func map<Events: AsyncSequence & SendableMetatype, each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where
    Events.Element == Event, Events.Failure == Never, Events.AsyncIterator: SendableMetatype
  {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        let values = place.payload(of: output, repeat (each Value).self)
        for await event in await effect(repeat each values) {
          guard await deliver(event, .oneOfMany) else { return }
        }
      })
  }
}

// Effects that can fail. `catch` says what a failure means to the machine: without it, an effect that
// throws compiles only where the events are `FailureEvent`s. A cancelled effect's failure is of no
// interest, and no event is taken.

extension Runtime {
  /// Executes `effect` when `output` is produced, and takes the event that it or `catch` returns.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map(
    output: Output, to effect: sending @escaping () async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let tag = CasePattern(value: output).tag
    return adding(
      gives,
      Effect(tag: tag, priority: priority, strategy: strategy) { _, deliver in
        let answer: Event?
        do { answer = try await effect() } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Executes `effect` on the associated values, and takes the event that it or `catch` returns.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        let values = place.payload(of: output, repeat (each Value).self)
        let answer: Event?
        do { answer = try await effect(repeat each values) } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Executes `effect`, and takes every event of its sequence; a failure ends it.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<Events: AsyncSequence & SendableMetatype>(
    output: Output, to effect: sending @escaping () async throws -> Events,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    nonisolated(unsafe) let effect = effect
    let tag = CasePattern(value: output).tag
    return adding(
      gives,
      Effect(tag: tag, priority: priority, strategy: strategy, isSequence: true) { _, deliver in
        do {
          for try await event in try await effect() {
            guard await deliver(event, .oneOfMany) else { return }
          }
        } catch {
          if let answer = event(error) { _ = await deliver(answer, .last) }
        }
      })
  }

  /// Executes `effect` on the associated values, and takes every event of its sequence; a failure
  /// ends it.
  /// - Parameter catch: The event that a failure is turned into; `nil` for none.
  public func map<Events: AsyncSequence & SendableMetatype, each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Events,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    nonisolated(unsafe) let effect = effect
    let place = CasePlace<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        let values = place.payload(of: output, repeat (each Value).self)
        do {
          for try await event in try await effect(repeat each values) {
            guard await deliver(event, .oneOfMany) else { return }
          }
        } catch {
          if let answer = event(error) { _ = await deliver(answer, .last) }
        }
      })
  }
}

/// How long a running effect outlives the state that started it.
///
/// The strategy is looked at on each entry into a state, the same state included, before the
/// output of that state starts.
public struct ExecutionStrategy<State: DSLCompatible>: Sendable {
  let cancels: @Sendable (State) -> Bool

  /// Goes on whatever state is entered.
  public static var continueWhenAnyState: Self { Self { _ in false } }

  /// Is cancelled by the next entry.
  public static var cancelWhenAnyState: Self { Self { _ in true } }

  /// Is cancelled by an entry into the case that `state` is, whatever its associated values.
  public static func cancel(when state: State) -> Self {
    let pattern = CasePattern(value: state)
    return Self { pattern.matches($0) }
  }

  /// Is cancelled by an entry into the case of this constructor.
  public static func cancel<each Value>(when state: (repeat each Value) -> State) -> Self {
    let pattern = CasePattern(constructor: state)
    return Self { pattern.matches($0) }
  }

  /// Is cancelled by an entry into one of several cases.
  public static func cancel(when states: OneOf<State>) -> Self { Self { states.contains($0) } }

  /// Is cancelled by an entry into a state that the predicate holds for.
  public static func cancel(when predicate: @escaping @Sendable (State) -> Bool) -> Self {
    Self(cancels: predicate)
  }
}
