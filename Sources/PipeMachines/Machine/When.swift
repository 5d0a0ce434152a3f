/// The description of a state: the output on entry into the state, and the transitions out of the
/// state.
///
/// States are matched by case, regardless of their associated values. If several `When`s name the
/// same case, their transitions are tried in the order written. The first of these `When`s with an
/// output closure determines the output, even if the output is `noOutput`. A `When` with
/// transitions only does not affect the output.
public struct When<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>: Sendable {
  @usableFromInline
  typealias Step = @Sendable (UnsafePointer<State>) -> Void
  @usableFromInline
  typealias Emit = @Sendable (UnsafePointer<State>) -> Output?

  /// The tags of the cases that this `When` describes.
  @usableFromInline let tags: [Int]
  @usableFromInline let output: Emit?
  /// Compares each `On` with the event of the current ``MatchContext``.
  @usableFromInline let transitions: Step?
  /// Adds each `On` to the ``EventList`` of the current thread. Returns `false` if no sample of the
  /// associated values can be made.
  @usableFromInline let list: (@Sendable () -> Bool)?

  @usableFromInline
  init(tags: [Int], output: Emit?, transitions: Step?, list: (@Sendable () -> Bool)?) {
    self.tags = tags
    self.output = output
    self.transitions = transitions
    self.list = list
  }
}

// Initializers for a state that is given as a value.
extension When {
  /// Describes a state without associated values.
  @inlinable
  public init(
    state: State,
    @ExecuteBuilder<Output> output: @escaping @Sendable () -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self.init(
      tags: [CasePattern(value: state).tag], output: { _ in output().output },
      transitions: { _ in transitions().read() },
      list: {
        transitions().read(); return true
      })
  }

  /// Describes a state, and passes the state to the output closure.
  @inlinable
  public init(
    state: State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self.init(
      tags: [CasePattern(value: state).tag], output: { output($0.pointee).output },
      transitions: { _ in transitions().read() },
      list: {
        transitions().read(); return true
      })
  }

  /// Describes a state, and passes the state to the output closure and to the transitions closure.
  @inlinable
  public init(
    state: State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (State) -> Transitions<State, Event>
  ) {
    self.init(
      tags: [CasePattern(value: state).tag], output: { output($0.pointee).output },
      transitions: { transitions($0.pointee).read() },
      list: {
        transitions(state).read(); return true
      })
  }
}

// Initializers for the states of one case, which is given by its constructor.
extension When {
  /// Describes the states of one case; the closures receive the associated values.
  @inlinable
  public init<each Value>(
    state: (repeat each Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (repeat each Value) -> Execute<Output>,
    @OnBuilder<State, Event>
    transitions: @escaping @Sendable (repeat each Value) -> Transitions<State, Event>
  ) {
    let accessor = CaseAccessor<State>(constructor: state)
    self.init(
      tags: [accessor.tag],
      output: { state in
        accessor.withPayload(of: state, repeat (each Value).self) {
          (values: repeat each Value) in output(repeat each values).output
        }
      },
      transitions: { state in
        accessor.withPayload(of: state, repeat (each Value).self) {
          (values: repeat each Value) in transitions(repeat each values).read()
        }
      },
      list: {
        guard let sample = Sample.values(repeat (each Value).self) else { return false }
        transitions(repeat each sample).read()
        return true
      })
  }
}

// Initializers for several states.
extension When {
  /// Describes several states, and passes the current state to the output closure.
  @inlinable
  public init(
    states: OneOf<State>,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self.init(
      tags: states.tags, output: { output($0.pointee).output },
      transitions: { _ in transitions().read() },
      list: {
        transitions().read(); return true
      })
  }

  /// Describes several states, and passes the current state to the output closure and to the
  /// transitions closure.
  @inlinable
  public init(
    states: OneOf<State>,
    @ExecuteBuilder<Output> output: @escaping @Sendable (State) -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (State) -> Transitions<State, Event>
  ) {
    self.init(
      tags: states.tags, output: { output($0.pointee).output },
      transitions: { transitions($0.pointee).read() },
      // The transitions are not listed: the closure may read the state, so that one sample state
      // would not show the transitions of all states in `states`.
      list: { false })
  }

  /// Describes several states.
  @inlinable
  public init(
    states: OneOf<State>,
    @ExecuteBuilder<Output> output: @escaping @Sendable () -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable () -> Transitions<State, Event>
  ) {
    self.init(
      tags: states.tags, output: { _ in output().output },
      transitions: { _ in transitions().read() },
      list: {
        transitions().read(); return true
      })
  }
}

// Overloads for a case with one value. On.swift explains why these overloads are separate.
extension When {
  /// Describes the states of one case; the closures receive the associated value.
  @inlinable
  public init<Value>(
    state: (Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (Value) -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (Value) -> Transitions<State, Event>
  ) {
    let accessor = CaseAccessor<State>(constructor: state)
    self.init(
      tags: [accessor.tag],
      output: { state in accessor.withSinglePayload(of: state, as: Value.self) { output($0).output }
      },
      transitions: { state in
        accessor.withSinglePayload(of: state, as: Value.self) { transitions($0).read() }
      },
      list: {
        guard let sample = Sample.one(Value.self) else { return false }
        transitions(sample).read()
        return true
      })
  }
}

extension When where Output == Never {
  /// Describes the states of one case, without an output.
  @inlinable
  public init<Value>(
    state: (Value) -> State,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (Value) -> Transitions<State, Event>
  ) {
    self =
      When(state: state, output: { (_: Value) in Execute.noOutput }, transitions: transitions)
      .withoutOutput
  }
}

extension When {
  /// Describes the states of one case, without transitions.
  @inlinable
  public init<Value>(
    state: (Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (Value) -> Execute<Output>
  ) {
    let accessor = CaseAccessor<State>(constructor: state)
    self.init(
      tags: [accessor.tag],
      output: { state in accessor.withSinglePayload(of: state, as: Value.self) { output($0).output }
      },
      transitions: nil, list: nil)
  }
}

extension When where Event == Never {
  /// Describes the states of one case, without transitions.
  @inlinable
  public init<Value>(
    state: (Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (Value) -> Execute<Output>
  ) {
    let accessor = CaseAccessor<State>(constructor: state)
    self.init(
      tags: [accessor.tag],
      output: { state in accessor.withSinglePayload(of: state, as: Value.self) { output($0).output }
      },
      transitions: nil, list: nil)
  }
}

extension CaseAccessor {
  /// Calls `body` with the payload of `value`. The case has exactly one associated value.
  @inlinable
  func withSinglePayload<Field, Result>(
    of value: UnsafePointer<Value>, as: Field.Type, body: (Field) -> Result
  ) -> Result {
    EnumLayout.withPayload(of: value, boxOffset: boxOffset, as: Field.self, body: body)
  }

  /// Returns the payload of `value`. The case has exactly one associated value.
  func one<Field>(of value: Value, as: Field.Type) -> Field {
    withUnsafePointer(to: value) { withSinglePayload(of: $0, as: Field.self) { $0 } }
  }
}
