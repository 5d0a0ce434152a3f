// A case that carries one value; see On+OneValue.swift.
extension When {
  /// Describes the states of one case; the closures receive the associated value.
  @inlinable
  public init<Value>(
    state: (Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (Value) -> Execute<Output>,
    @OnBuilder<State, Event> transitions: @escaping @Sendable (Value) -> Transitions<State, Event>
  ) {
    let place = CasePlace<State>(constructor: state)
    self.init(
      tags: [place.tag],
      output: { state in place.withOne(of: state, as: Value.self) { output($0).output } },
      transitions: { state in place.withOne(of: state, as: Value.self) { transitions($0).read() } },
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
      .silent
  }
}

extension When {
  /// Describes the states of one case, without transitions.
  @inlinable
  public init<Value>(
    state: (Value) -> State,
    @ExecuteBuilder<Output> output: @escaping @Sendable (Value) -> Execute<Output>
  ) {
    let place = CasePlace<State>(constructor: state)
    self.init(
      tags: [place.tag],
      output: { state in place.withOne(of: state, as: Value.self) { output($0).output } },
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
    let place = CasePlace<State>(constructor: state)
    self.init(
      tags: [place.tag],
      output: { state in place.withOne(of: state, as: Value.self) { output($0).output } },
      transitions: nil, list: nil)
  }
}

extension CasePlace {
  /// Calls `body` with the one value that a value of this case carries.
  @inlinable
  func withOne<Field, Result>(
    of value: UnsafePointer<Value>, as: Field.Type, body: (Field) -> Result
  ) -> Result {
    EnumLayout.withPayload(of: value, boxOffset: boxOffset, as: Field.self, body: body)
  }

  /// The one value that a value of this case carries.
  func one<Field>(of value: Value, as: Field.Type) -> Field {
    withUnsafePointer(to: value) { withOne(of: $0, as: Field.self) { $0 } }
  }
}
