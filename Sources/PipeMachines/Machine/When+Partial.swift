// A state with transitions only.
extension When where Output == Never {
  /// Describes a state without an output.
  @inlinable
  public init(
    state: State,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self.init(state: state, output: { Execute.noOutput }, transitions: transitions)
  }

  /// Describes the states of one case, without an output.
  @inlinable
  public init<each Value>(
    state: (repeat each Value) -> State,
    @OnBuilder<State, Event>
    transitions: @escaping @Sendable (repeat each Value) -> Transitions<State, Event>
  ) {
    self.init(
      state: state, output: { (_: repeat each Value) in Execute.noOutput },
      transitions: transitions)
  }

  /// Describes several states without an output.
  @inlinable
  public init(
    states: OneOf<State>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self.init(states: states, output: { Execute.noOutput }, transitions: transitions)
  }

  /// Describes several states without an output; the closure receives the state.
  @inlinable
  public init(
    states: OneOf<State>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (State) -> Transitions<State, Event>
  ) {
    self.init(states: states, output: { _ in Execute.noOutput }, transitions: transitions)
  }
}

// A state with an output only: no event leads out of it.
extension When where Event == Never {
  /// Describes a state without transitions.
  @inlinable
  public init(
    state: State,
    @ExecuteBuilder<Output> output: @escaping @Sendable () -> Execute<Output>
  ) {
    self.init(
      tags: [CasePattern(value: state).tag], output: { _ in output().output },
      transitions: nil, list: nil)
  }

  /// Describes the states of one case, without transitions.
  @inlinable
  public init<each Value>(
    state: (repeat each Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (repeat each Value) -> Execute<Output>
  ) {
    let place = CasePlace<State>(constructor: state)
    self.init(
      tags: [place.tag],
      output: { state in
        place.withPayload(of: state, repeat (each Value).self) {
          (values: repeat each Value) in output(repeat each values).output
        }
      },
      transitions: nil, list: nil)
  }

  /// Describes several states without transitions.
  @inlinable
  public init(
    states: OneOf<State>,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>
  ) {
    self.init(
      tags: states.patterns.map(\.tag), output: { output($0.pointee).output },
      transitions: nil, list: nil)
  }
}
