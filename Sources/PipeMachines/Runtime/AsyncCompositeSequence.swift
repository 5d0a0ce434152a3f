/// Running machines as one composite, with its states as a tuple of theirs.
///
/// ```swift
/// let door = CompositeComponent("door", stateMachine: doorMachine, runtime: doorRuntime)
/// let motor = CompositeComponent("motor", stateMachine: motorMachine)
/// let lift = try AsyncCompositeSequence("lift", door, motor, synchronize: ["emergencyStop"])
/// await lift.send(.closeButtonWasPressed, to: door)
/// let reply = try await lift.synchronizedEvent(DoorEvent.emergencyStop)
/// for await (door, motor) in lift { … }
/// for await state in lift.states(as: LiftState.init(door:motor:)) { … }
/// ```
///
/// `States` is the tuple of the components' states, in their order. ``AsyncProductSequence`` says what
/// holds; it is the same with the states in a list.
public struct AsyncCompositeSequence<States: Sendable>: AsyncSequence, Sendable {
  /// The states of all components.
  public typealias Element = States
  /// The sequence does not fail.
  public typealias Failure = Never

  /// The same, with the states in a list.
  public let product: AsyncProductSequence
  /// The name of the composite.
  public let name: String
  private let tuple: @Sendable (ProductState) -> States

  /// Starts machines.
  /// - Throws: ``CompositionError`` with everything that is wrong with the composite.
  public init<each State: MachineState, each Event: MachineEvent>(
    _ name: String, _ components: repeat CompositeComponent<each State, each Event>,
    synchronize: [Synchronization] = []
  ) throws(CompositionError) where States == (repeat each State) {
    tuple = { state in
      let reader = TupleReader(state)
      return (repeat reader.next((each State).self))
    }
    var list: [AnyCompositeComponent] = []
    for component in repeat each components { list.append(component.erased) }
    self.name = name
    product = try AsyncProductSequence(
      name, list,
      composites: [
        CompositeDeclaration(
          name, components: list.map(\.component.name), synchronize: synchronize)
      ])
  }

  /// The current state: that after one of the steps, never that between two.
  public var state: States { tuple(product.state) }

  /// Whether only an event from outside moves it: no effect runs, no transition, no event waits.
  public var isStable: Bool { product.isStable }

  /// The current state as an initializer makes it of the components' states.
  public func state<Whole, each State: MachineState>(
    as project: (repeat each State) -> Whole
  ) -> Whole where States == (repeat each State) {
    let reader = TupleReader(product.state)
    return project(repeat reader.next((each State).self))
  }

  /// The states as an initializer makes them of the components' states.
  public func states<Whole, each State: MachineState>(
    as project: @escaping @Sendable (repeat each State) -> Whole
  ) -> AsyncMapSequence<AsyncProductSequence, Whole> where States == (repeat each State) {
    product.map { state in
      let reader = TupleReader(state)
      return project(repeat reader.next((each State).self))
    }
  }

  /// Has one component take an event, and returns once it has.
  /// - Throws: ``RoutingError`` where the event is synchronized for the component.
  @discardableResult
  public func send<ComponentState, Event: MachineEvent>(
    _ event: Event, to component: CompositeComponent<ComponentState, Event>
  ) async throws(RoutingError) -> SendOutcome<ComponentState> {
    switch try await product.send(event, to: component.name) {
    case .moved(let state as ComponentState): return .moved(state)
    case .moved: throw .unknownComponent(component.name)
    case .refused(let refusal): return .refused(refusal)
    case .finished: return .finished
    }
  }

  /// Has all participants of an event take it, or none, and says which.
  /// - Parameters:
  ///   - event: The event as any of the participants knows it.
  ///   - mode: Whether to wait until it is enabled.
  /// - Throws: ``RoutingError`` where the composite does not synchronize the event, or where a
  ///   participant cannot read its payload.
  @discardableResult
  public func synchronizedEvent(
    _ event: some MachineEvent, _ mode: SynchronizedMode = .try
  ) async throws(RoutingError) -> SynchronizedReply {
    try await product.synchronizedEvent(SynchronizedEvent(event), of: name, mode)
  }

  /// Ends the run: cancels effects; iterators end after the states that they still have.
  public func finish() { product.finish() }

  /// Begins to read states.
  public func makeAsyncIterator() -> Iterator {
    Iterator(states: product.makeAsyncIterator(), tuple: tuple)
  }

  /// Reads the states of the run, for one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    let states: AsyncProductSequence.Iterator
    let tuple: @Sendable (ProductState) -> States

    /// The next state; `nil` once the run has ended, or where the task is cancelled.
    nonisolated(nonsending)
      public func next() async -> States?
    {
      await states.next().map(tuple)
    }

    /// The next state; `nil` once the run has ended, or where the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async -> States? {
      await states.next(isolation: actor).map(tuple)
    }
  }
}

@available(*, unavailable)
extension AsyncCompositeSequence.Iterator: Sendable {}
