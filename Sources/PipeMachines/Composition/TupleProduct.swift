/// A ``Product`` whose states are a tuple of the components' own types.
///
/// ```swift
/// let door = Component("door", machine: doorMachine)
/// let motor = Component("motor", machine: motorMachine)
/// let lift = try TupleProduct("lift", door, motor, synchronize: ["emergencyStop"])
/// let next = try lift.next(lift.initial, DoorEvent.closeButtonWasPressed, of: door)
/// ```
public struct TupleProduct<each State: MachineState>: Sendable {
  /// The states of all components.
  public typealias States = (repeat each State)

  /// The same, with states in a list.
  public let product: Product
  /// The name of the composite.
  public let name: String

  /// Composes machines to one composite.
  /// - Throws: ``CompositionError`` with everything that is wrong with it.
  public init<each Event: MachineEvent>(
    _ name: String, _ components: repeat Component<each State, each Event>,
    synchronize: [Synchronization] = []
  ) throws(CompositionError) {
    var list: [AnyComponent] = []
    for component in repeat each components { list.append(AnyComponent(component)) }
    product = try Product(name, list, synchronize: synchronize)
    self.name = name
  }

  /// The initial state of each component.
  public var initial: States { states(of: product.initial) }

  /// The states that an event leads to which one component takes alone; `nil` if it is refused.
  ///
  /// ``product`` says by whom and why, and it answers asynchronous transitions, which lead nowhere here.
  /// - Throws: ``RoutingError`` where the event is synchronized, or the component is not one of these.
  public func next<ComponentState, Event: MachineEvent>(
    _ states: (repeat each State), _ event: Event, of component: Component<ComponentState, Event>
  ) throws(RoutingError) -> (repeat each State)? {
    try next(productState(repeat each states), .local(component: component.name, event))
  }

  /// The states that an event leads to which its participants take together; `nil` if it is refused.
  /// - Throws: ``RoutingError`` where the composite does not synchronize the event.
  public func next(
    _ states: (repeat each State), _ event: SynchronizedEvent
  ) throws(RoutingError) -> (repeat each State)? {
    try next(productState(repeat each states), .synchronized(event, composite: name))
  }

  private func next(
    _ state: ProductState, _ event: ProductEvent
  ) throws(RoutingError) -> (repeat each State)? {
    guard case .next(let next) = try product.reduce(state, event) else { return nil }
    let reached: (repeat each State) = states(of: next)
    return reached
  }

  /// The tuple of a state of ``product``.
  public func states(of state: ProductState) -> States {
    let reader = TupleReader(state)
    return (repeat reader.next((each State).self))
  }

  /// The state of ``product`` that a tuple stands for.
  public func productState(_ states: repeat each State) -> ProductState {
    var list: [any MachineState] = []
    for state in repeat each states { list.append(state) }
    return ProductState(list)
  }
}
