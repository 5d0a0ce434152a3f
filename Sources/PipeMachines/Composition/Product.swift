/// The interface-parallel composition of any number of machines, as one machine.
///
/// The state of a product is the list of the machines' states. A synchronized event is accepted by
/// all of its participants or by none. Any other event is accepted by one component alone. If an
/// event is synchronized for a component, the component accepts the event only through the
/// composite.
///
/// ```swift
/// let door = Component("door", machine: doorMachine)
/// let motor = Component("motor", machine: motorMachine)
/// let lift = try Product("lift", [AnyComponent(door), AnyComponent(motor)],
///   synchronize: ["emergencyStop"])
/// ```
///
/// ``TupleProduct`` is the same composition with the states in a tuple.
public struct Product: Sendable {
  /// The components, in the order of their states.
  public let components: [AnyComponent]
  /// The composition, which specifies the components that synchronize each event.
  public let composition: Composition
  private let positionsByName: [String: Int]

  /// Composes machines with any number of composites.
  /// - Throws: ``CompositionError`` with all errors of the composites.
  public init(
    _ components: [AnyComponent], composites: [CompositeDeclaration]
  ) throws(CompositionError) {
    self.components = components
    composition = try Composition(
      composites, machines: components.map { ($0.name, $0.alphabet) })
    positionsByName = Dictionary(
      uniqueKeysWithValues: components.enumerated().map { ($0.element.name, $0.offset) })
  }

  /// Composes machines into one composite.
  /// - Throws: ``CompositionError`` with all errors of the composite.
  public init(
    _ name: String, _ components: [AnyComponent], synchronize: [Synchronization]
  ) throws(CompositionError) {
    try self.init(
      components,
      composites: [
        CompositeDeclaration(
          name, components: components.map(\.name), synchronize: synchronize)
      ])
  }

  /// The initial state of each component.
  public var initial: ProductState { ProductState(components.map(\.initial)) }

  func position(of name: String) throws(RoutingError) -> Int {
    guard let position = positionsByName[name] else { throw .unknownComponent(name) }
    return position
  }

  /// Returns whether no component emits an output in this state. The product then changes only on
  /// an event from outside.
  ///
  /// The function considers only the states. It does not consider effects that an earlier state has
  /// started and that are still running.
  public func isStable(_ state: ProductState) -> Bool {
    zip(components, state.components).allSatisfy { !$0.hasOutput($1) }
  }
}

/// A state of a ``Product``: one state for each component, in order.
public struct ProductState: Hashable, Sendable, CustomStringConvertible {
  /// The states of the components.
  public internal(set) var components: [ComponentState]

  init(_ components: [ComponentState]) { self.components = components }

  /// Makes a state from the components' states.
  public init(_ states: [any MachineState]) { components = states.map { ComponentState($0) } }

  /// The Swift description of the states: `(closed, idle(floor: 0))`.
  public var description: String {
    "(\(components.map(\.description).joined(separator: ", ")))"
  }
}

/// An event of a ``Product``.
public enum ProductEvent: Sendable {
  /// An event that one component accepts alone.
  case local(component: String, any MachineEvent)
  /// An event that all of its participants accept together. The value `composite` is the name of
  /// the composite that synchronizes the event.
  case synchronized(SynchronizedEvent, composite: String)
}

/// The result of evaluating an event in a ``Product``.
public enum ProductReduction: Sendable {
  /// The event is accepted, and this is the next state.
  case next(ProductState)
  /// The event is refused by these participants, and no component changes its state.
  case refused([BlockingParticipant])
  /// At least one transition is asynchronous. The closure runs the asynchronous transitions, and
  /// returns the next state.
  case suspended(@Sendable () async throws -> ProductState)
}

/// Whether a ``Product`` accepts an event in a state, and the participants that refuse the event,
/// with their reasons.
public struct Enabledness: Sendable {
  /// The event.
  public let event: ProductEvent
  /// The names of the components that accept the event if it is enabled.
  public let participants: [String]
  /// The participants that refuse the event; empty if the event is enabled.
  public let blockers: [BlockingParticipant]

  /// Whether every participant accepts the event.
  public var isEnabled: Bool { blockers.isEmpty }
}

extension Product {
  /// Returns whether an event is enabled. If the event is not enabled, the result lists the
  /// participants that refuse the event.
  /// - Throws: ``RoutingError``, under the same conditions as ``reduce(_:_:)``.
  public func enabledness(
    of event: ProductEvent, in state: ProductState
  ) throws(RoutingError) -> Enabledness {
    let steps = try steps(of: event)
    return enabledness(of: event, steps, in: state)
  }

  /// Returns the enabledness of each event. The events of single components come first, followed by
  /// the synchronized events.
  ///
  /// An event with a payload is evaluated with the payloads that the components list in
  /// ``Component/events``.
  public func enabledness(in state: ProductState) -> [Enabledness] {
    alternatives.map { enabledness(of: $0.event, $0.steps, in: state) }
  }

  private func enabledness(
    of event: ProductEvent, _ steps: [(position: Int, any MachineEvent)], in state: ProductState
  ) -> Enabledness {
    let blockers: [BlockingParticipant] =
      if case .refused(let blockers) = reduce(state, steps) { blockers } else { [] }
    return Enabledness(
      event: event, participants: steps.map { components[$0.position].name }, blockers: blockers)
  }
}

extension ProductEvent: CustomStringConvertible {
  /// The event with its target: `door: openButtonWasPressed`.
  public var description: String {
    switch self {
    case .local(let component, let event): "\(component): \(event)"
    case .synchronized(let event, let composite): "\(composite): \(event)"
    }
  }
}

/// A ``Product`` whose state is a tuple of the components' own state types.
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

  /// The product with the states in a list.
  public let product: Product
  /// The name of the composite.
  public let name: String

  /// Composes machines into one composite.
  /// - Throws: ``CompositionError`` with all errors of the composite.
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

  /// Returns the states after an event that one component accepts alone; `nil` if the event is
  /// refused.
  ///
  /// For an asynchronous transition, this function returns `nil`. Use ``product`` for asynchronous
  /// transitions, and for the reasons of a refusal.
  /// - Throws: ``RoutingError`` if the event is synchronized, or if the component is not part of
  ///   this product.
  public func next<ComponentState, Event: MachineEvent>(
    _ states: (repeat each State), _ event: Event, of component: Component<ComponentState, Event>
  ) throws(RoutingError) -> (repeat each State)? {
    try next(productState(repeat each states), .local(component: component.name, event))
  }

  /// Returns the states after an event that its participants accept together; `nil` if the event is
  /// refused.
  /// - Throws: ``RoutingError`` if the composite does not synchronize the event.
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

  /// Converts a state of ``product`` to a tuple.
  public func states(of state: ProductState) -> States {
    let reader = TupleReader(state)
    return (repeat reader.nextValue((each State).self))
  }

  /// Converts a tuple of states to a state of ``product``.
  public func productState(_ states: repeat each State) -> ProductState {
    var list: [any MachineState] = []
    for state in repeat each states { list.append(state) }
    return ProductState(list)
  }
}

/// A reader that returns the states of a product one by one, each as a value of the component's
/// state type.
///
/// This is a class, and not a generic function nested in each caller. Swift 6.3.1 cannot compile a
/// release build with a generic function inside a function that has a parameter pack.
final class TupleReader {
  private let state: ProductState
  private var position = -1

  init(_ state: ProductState) { self.state = state }

  func nextValue<Value: MachineState>(_: Value.Type) -> Value {
    position += 1
    guard let value = state.components[position].value as? Value else {
      preconditionFailure("State \(state) does not belong to this composite.")
    }
    return value
  }
}
