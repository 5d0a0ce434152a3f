// States with transitions and without an output.
extension When where Output == Never {
  /// Describes a state without an output.
  @inlinable
  public init(
    state: State,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self = When(state: state, output: { Execute.noOutput }, transitions: transitions).withoutOutput
  }

  /// Describes the states of one case, without an output.
  @inlinable
  public init<each Value>(
    state: (repeat each Value) -> State,
    @OnBuilder<State, Event>
    transitions: @escaping @Sendable (repeat each Value) -> Transitions<State, Event>
  ) {
    self =
      When(
        state: state, output: { (_: repeat each Value) in Execute.noOutput },
        transitions: transitions
      ).withoutOutput
  }

  /// Describes several states without an output.
  @inlinable
  public init(
    states: OneOf<State>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self =
      When(states: states, output: { Execute.noOutput }, transitions: transitions).withoutOutput
  }

  /// Describes several states without an output, and passes the current state to the closure.
  @inlinable
  public init(
    states: OneOf<State>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (State) -> Transitions<State, Event>
  ) {
    self =
      When(states: states, output: { _ in Execute.noOutput }, transitions: transitions)
      .withoutOutput
  }

  /// A copy of this `When` without an output closure. The copy does not affect the output of its
  /// states.
  @inlinable
  var withoutOutput: Self { Self(tags: tags, output: nil, transitions: transitions, list: list) }
}

// States with an output and without transitions.
extension When {
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

  /// Describes a state without transitions, and passes the state to the closure.
  @inlinable
  public init(
    state: State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>
  ) {
    self.init(
      tags: [CasePattern(value: state).tag], output: { output($0.pointee).output },
      transitions: nil, list: nil)
  }

  /// Describes the states of one case, without transitions.
  @inlinable
  public init<each Value>(
    state: (repeat each Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (repeat each Value) -> Execute<Output>
  ) {
    let accessor = CaseAccessor<State>(constructor: state)
    self.init(
      tags: [accessor.tag],
      output: { state in
        accessor.withPayload(of: state, repeat (each Value).self) {
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
      tags: states.tags, output: { output($0.pointee).output },
      transitions: nil, list: nil)
  }
}

// The same overloads for code from which Swift cannot infer the event type.
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

  /// Describes a state without transitions, and passes the state to the closure.
  @inlinable
  public init(
    state: State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>
  ) {
    self.init(
      tags: [CasePattern(value: state).tag], output: { output($0.pointee).output },
      transitions: nil, list: nil)
  }

  /// Describes the states of one case, without transitions.
  @inlinable
  public init<each Value>(
    state: (repeat each Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (repeat each Value) -> Execute<Output>
  ) {
    let accessor = CaseAccessor<State>(constructor: state)
    self.init(
      tags: [accessor.tag],
      output: { state in
        accessor.withPayload(of: state, repeat (each Value).self) {
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
      tags: states.tags, output: { output($0.pointee).output },
      transitions: nil, list: nil)
  }
}
