/// The asynchronous work for one case of the output.
package struct Effect<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>: Sendable {
  typealias Deliver = EffectDelivery<Event>

  let tag: Int
  let priority: TaskPriority?
  let strategy: ExecutionStrategy<State>
  /// Whether the effect can produce more than one event.
  var isSequence = false
  /// The events that the effect can produce; `nil` if they are not declared.
  var gives: GivenEvents<Event>?
  let run: @Sendable (Output, Deliver) async -> Void
}

// In the code below, `nonisolated(unsafe)` lets an effect store the function that performs it. The
// function is `sending`, so no other code can access its captures. If several runs of the effect
// can overlap, the captures must be safe for concurrent use.

// Effects that produce one event.
extension Runtime {
  /// Runs `effect` when the machine emits `output`, and processes the event that `effect` returns.
  /// - Parameter gives: The events that the effect can produce, for `orchestrator check --explore`.
  ///   With `nil`, the model checker assumes that the effect can produce each event that nothing
  ///   else sends.
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

  /// Runs `effect` with the output's associated values, and processes the event that `effect`
  /// returns.
  public func map<each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let accessor = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: accessor.tag, priority: priority, strategy: strategy) { output, deliver in
        let values = accessor.payload(of: output, repeat (each Value).self)
        if let event = await effect(repeat each values) { _ = await deliver(event, .last) }
      })
  }
}

// Effects that produce many events.
extension Runtime {
  /// Runs `effect` when the machine emits `output`, and processes every event of the returned
  /// sequence.
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

  /// Runs `effect` with the output's associated values, and processes every event of the returned
  /// sequence.
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
    let accessor = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: accessor.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        let values = accessor.payload(of: output, repeat (each Value).self)
        for await event in await effect(repeat each values) {
          guard await deliver(event, .oneOfMany) else { return }
        }
      })
  }
}

// Effects that can fail. The closure `catch` converts an error to an event. Without `catch`, an
// effect that throws compiles only if the event type is a `FailureEvent`. The error of a cancelled
// effect is ignored: the machine processes no event.

extension Runtime {
  /// Runs `effect` when the machine emits `output`, and processes the event that `effect` or
  /// `catch` returns.
  /// - Parameter catch: Returns the event for an error, or `nil` for no event.
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

  /// Runs `effect` with the output's associated values, and processes the event that `effect` or
  /// `catch` returns.
  /// - Parameter catch: Returns the event for an error, or `nil` for no event.
  public func map<each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let accessor = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: accessor.tag, priority: priority, strategy: strategy) { output, deliver in
        let values = accessor.payload(of: output, repeat (each Value).self)
        let answer: Event?
        do { answer = try await effect(repeat each values) } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Runs `effect` when the machine emits `output`, and processes every event of the returned
  /// sequence. An error ends the effect.
  /// - Parameter catch: Returns the event for an error, or `nil` for no event.
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

  /// Runs `effect` with the output's associated values, and processes every event of the returned
  /// sequence. An error ends the effect.
  /// - Parameter catch: Returns the event for an error, or `nil` for no event.
  public func map<Events: AsyncSequence & SendableMetatype, each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Events,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    nonisolated(unsafe) let effect = effect
    let accessor = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: accessor.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        let values = accessor.payload(of: output, repeat (each Value).self)
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

/// A rule that decides when a running effect is cancelled.
///
/// The rule is applied on each entry into a state, before the effect of that state's output starts.
/// A transition from a state to itself enters the state again.
public struct ExecutionStrategy<State: DSLCompatible>: Sendable {
  let cancels: @Sendable (State) -> Bool

  /// Continues the effect in any state.
  public static var continueWhenAnyState: Self { Self { _ in false } }

  /// Cancels the effect on the next entry into any state.
  public static var cancelWhenAnyState: Self { Self { _ in true } }

  /// Cancels the effect on entry into the case of `state`. Associated values are ignored.
  public static func cancel(when state: State) -> Self {
    let pattern = CasePattern(value: state)
    return Self { pattern.matches($0) }
  }

  /// Cancels the effect on entry into the case that the constructor makes.
  public static func cancel<each Value>(when state: (repeat each Value) -> State) -> Self {
    let pattern = CasePattern(constructor: state)
    return Self { pattern.matches($0) }
  }

  /// Cancels the effect on entry into one of several cases.
  public static func cancel(when states: OneOf<State>) -> Self { Self { states.contains($0) } }

  /// Cancels the effect on entry into a state that satisfies the predicate.
  public static func cancel(when predicate: @escaping @Sendable (State) -> Bool) -> Self {
    Self(cancels: predicate)
  }
}
