/// A model that shows what two others show together.
///
/// ```swift
/// let both = CompositeStateMachine(observing: modelA, observing: modelB) { CompositeState($0, $1) }
/// ```
///
/// It takes no events: these go to the two, or to a model of one's own that holds them. Two models that
/// take an event one after the other are seen in between; where that must not be, or one of them may
/// refuse, let them be machines of an ``AsyncCompositeSequence``.
public actor CompositeStateMachine<State: StateProtocol>: StateMachineProtocol {
  private nonisolated let current: @Sendable () -> State

  /// The state made of theirs.
  public nonisolated var state: State { current() }

  /// The state made of theirs, then another one whenever one of them has changed.
  public nonisolated let stateDidChange: StatePublisher<State>

  /// Observes two models, which may be constant ones.
  /// - Parameter combine: What their states are together. Pure.
  public init<First: StateMachineProtocol, Second: StateMachineProtocol>(
    observing first: First, observing second: Second,
    _ combine: @escaping @Sendable (First.State, Second.State) -> State
  ) {
    current = { combine(first.state, second.state) }
    stateDidChange = first.stateDidChange.combineLatest(second.stateDidChange, combine)
  }
}
