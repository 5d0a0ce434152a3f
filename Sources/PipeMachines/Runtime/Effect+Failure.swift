/// An event type with an event that reports a failed effect. For such a type, an effect that throws
/// can be mapped without `catch`.
///
/// ```swift
/// enum Event: MachineEvent, FailureEvent {
///   case didLoad([String])
///   case didFail(String)
///
///   static func failure(_ error: any Error) -> Event { .didFail("\(error)") }
/// }
/// ```
public protocol FailureEvent: DSLCompatible {
  /// Returns the event for an effect's error.
  static func failure(_ error: any Error) -> Self
}

extension Runtime where Event: FailureEvent {
  /// Runs `effect` when the machine emits `output`, and processes the event that `effect` returns.
  /// If the effect throws, processes the failure event.
  @_disfavoredOverload
  public func map(
    output: Output, to effect: sending @escaping () async throws -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    map(
      output: output, to: effect, catch: { .failure($0) }, gives: gives, priority: priority,
      strategy: strategy)
  }

  /// Runs `effect` with the output's associated values, and processes the event that `effect`
  /// returns. If the effect throws, processes the failure event.
  @_disfavoredOverload
  public func map<each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    map(
      output: output, to: effect, catch: { .failure($0) }, gives: gives, priority: priority,
      strategy: strategy)
  }

  /// Runs `effect` with the output's associated value, and processes the event that `effect`
  /// returns. If the effect throws, processes the failure event.
  @_disfavoredOverload
  public func map<Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async throws -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    map(
      output: output, to: effect, catch: { .failure($0) }, gives: gives, priority: priority,
      strategy: strategy)
  }

  /// Runs `effect` when the machine emits `output`, and processes every event of the returned
  /// sequence. An error ends the effect with the failure event.
  @_disfavoredOverload
  public func map<Events: AsyncSequence & SendableMetatype>(
    output: Output, to effect: sending @escaping () async throws -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    map(
      output: output, to: effect, catch: { .failure($0) }, gives: gives, priority: priority,
      strategy: strategy)
  }

  /// Runs `effect` with the output's associated values, and processes every event of the returned
  /// sequence. An error ends the effect with the failure event.
  @_disfavoredOverload
  public func map<Events: AsyncSequence & SendableMetatype, each Value: Sendable>(
    output: (repeat each Value) -> Output,
    to effect: sending @escaping (repeat each Value) async throws -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    map(
      output: output, to: effect, catch: { .failure($0) }, gives: gives, priority: priority,
      strategy: strategy)
  }

  /// Runs `effect` with the output's associated value, and processes every event of the returned
  /// sequence. An error ends the effect with the failure event.
  @_disfavoredOverload
  public func map<Events: AsyncSequence & SendableMetatype, Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async throws -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    map(
      output: output, to: effect, catch: { .failure($0) }, gives: gives, priority: priority,
      strategy: strategy)
  }
}
