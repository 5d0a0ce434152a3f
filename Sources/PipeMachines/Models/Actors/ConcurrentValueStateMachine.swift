/// A model whose state is a value that a view may set.
public protocol ConcurrentValueStateMachineProtocol<State>: StateMachineProtocol {
  /// Sets the value.
  nonisolated func set(_ state: State)
}

extension ConcurrentValueStateMachineProtocol {
  /// The value for a view that reads it and sets it.
  @MainActor
  public func binding() -> ValueBinding<State> {
    ValueBinding(get: { self.state }, set: { self.set($0) }, timers: ViewTimers())
  }
}

/// The model of one value: what a text field, a picker or a switch shows and sets.
public actor ConcurrentValueStateMachine<State: StateProtocol>:
  ConcurrentValueStateMachineProtocol
{
  private let subject: ConcurrentValueSubject<State>

  /// Makes a model with a value.
  public init(_ state: State) { subject = ConcurrentValueSubject(state) }

  /// The value.
  public nonisolated var state: State { subject.state }

  /// The value, then each one that is set.
  public nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  /// Sets the value. Whoever reads it afterwards, on any thread, finds it.
  public nonisolated func set(_ state: State) { subject.send(state) }
}

/// A model that stays in one state, and whose value cannot be set: for tests and previews.
public actor ConstantStateMachine<State: StateProtocol>: ConcurrentValueStateMachineProtocol {
  /// The state.
  public nonisolated let state: State

  /// Makes a model that stays in a state, a stable one or not.
  public init(_ state: State) { self.state = state }

  /// The state.
  public nonisolated var stateDidChange: StatePublisher<State> { .constant(state) }

  /// Changes nothing.
  public nonisolated func set(_ state: State) {}
}
