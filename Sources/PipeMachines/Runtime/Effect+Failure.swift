/// The events of a machine that has one for the failures of its effects: an effect that throws is then
/// mapped without `catch`.
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
  /// The event that an effect's error is turned into.
  static func failure(_ error: any Error) -> Self
}

extension Runtime where Event: FailureEvent {
  /// Executes `effect` when `output` is produced, and takes the event that it returns, or that of its
  /// failure.
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

  /// Executes `effect` on the associated values, and takes the event that it returns, or that of its
  /// failure.
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

  /// Executes `effect` on the associated value, and takes the event that it returns, or that of its
  /// failure.
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

  /// Executes `effect`, and takes every event of its sequence; a failure ends it with an event.
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

  /// Executes `effect` on the associated values, and takes every event of its sequence; a failure ends
  /// it with an event.
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

  /// Executes `effect` on the associated value, and takes every event of its sequence; a failure ends
  /// it with an event.
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
