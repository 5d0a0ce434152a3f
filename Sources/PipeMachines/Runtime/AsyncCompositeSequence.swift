/// A running composite of machines, as a sequence of the composite's states. Each state is a tuple
/// of the components' states.
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
/// `States` is the tuple of the components' states, in the order of the components.
/// ``AsyncProductSequence`` is the same sequence with the states in a list, and describes the rules
/// for events.
public struct AsyncCompositeSequence<States: Sendable>: AsyncSequence, Sendable {
  /// The states of all components.
  public typealias Element = States
  /// The sequence does not fail.
  public typealias Failure = Never

  /// A sequence of the same run, whose states are lists instead of tuples.
  public let product: AsyncProductSequence
  /// The name of the composite.
  public let name: String
  private let tuple: @Sendable (ProductState) -> States

  /// Starts the machines.
  /// - Throws: ``CompositionError`` with all errors of the composite.
  public init<each State: MachineState, each Event: MachineEvent>(
    _ name: String, _ components: repeat CompositeComponent<each State, each Event>,
    synchronize: [Synchronization] = []
  ) throws(CompositionError) where States == (repeat each State) {
    tuple = { state in
      let reader = TupleReader(state)
      return (repeat reader.nextValue((each State).self))
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

  /// The current state, which is always the state after a complete step.
  public var state: States { tuple(product.state) }

  /// Whether only an event from outside can change the composite: no effect or transition is
  /// running, and no event is queued.
  public var isStable: Bool { product.isStable }

  /// Returns the value that `project` makes from the components' current states.
  public func state<Whole, each State: MachineState>(
    as project: (repeat each State) -> Whole
  ) -> Whole where States == (repeat each State) {
    let reader = TupleReader(product.state)
    return project(repeat reader.nextValue((each State).self))
  }

  /// Returns the sequence of the values that `project` makes from the components' states, one for
  /// each state.
  public func states<Whole, each State: MachineState>(
    as project: @escaping @Sendable (repeat each State) -> Whole
  ) -> AsyncMapSequence<AsyncProductSequence, Whole> where States == (repeat each State) {
    product.map { state in
      let reader = TupleReader(state)
      return project(repeat reader.nextValue((each State).self))
    }
  }

  /// Sends an event to one component and waits until the component has processed it.
  /// - Throws: ``RoutingError`` if the event is synchronized for the component.
  @discardableResult
  public func send<ComponentState, Event: MachineEvent>(
    _ event: Event, to component: CompositeComponent<ComponentState, Event>
  ) async throws(RoutingError) -> SendOutcome<ComponentState> {
    switch try await product.send(event, to: component.name) {
    case .accepted(let state as ComponentState): return .accepted(state)
    case .accepted: throw .unknownComponent(component.name)
    case .refused(let refusal): return .refused(refusal)
    case .finished: return .finished
    }
  }

  /// Sends a synchronized event to all of its participants and returns the outcome. Either all
  /// participants accept the event, or no participant does.
  /// - Parameters:
  ///   - event: The event, in the event type of any participant.
  ///   - mode: Whether to wait until the event is enabled.
  /// - Throws: ``RoutingError`` if the composite does not synchronize the event, or if a
  ///   participant cannot read the event's payload.
  @discardableResult
  public func synchronizedEvent(
    _ event: some MachineEvent, _ mode: SynchronizedMode = .try
  ) async throws(RoutingError) -> SynchronizedReply {
    try await product.synchronizedEvent(SynchronizedEvent(event), of: name, mode)
  }

  /// Ends the run and cancels its effects. Each iterator still returns the states in its buffer,
  /// and then ends.
  public func finish() { product.finish() }

  /// Makes an iterator over the states of the run.
  public func makeAsyncIterator() -> Iterator {
    Iterator(states: product.makeAsyncIterator(), tuple: tuple)
  }

  /// An iterator over the states of the run. Only one task may use it at a time.
  public struct Iterator: AsyncIteratorProtocol {
    let states: AsyncProductSequence.Iterator
    let tuple: @Sendable (ProductState) -> States

    /// Returns the next state, or `nil` if the run has ended or the task is cancelled.
    nonisolated(nonsending)
      public func next() async -> States?
    {
      await states.next().map(tuple)
    }

    /// Returns the next state, or `nil` if the run has ended or the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async -> States? {
      await states.next(isolation: actor).map(tuple)
    }
  }
}

@available(*, unavailable)
extension AsyncCompositeSequence.Iterator: Sendable {}
