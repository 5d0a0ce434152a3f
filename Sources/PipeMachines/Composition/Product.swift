/// The interface-parallel composition of any number of machines, as a machine.
///
/// Its state is the list of theirs. Its events are theirs, each taken by one component alone, and the
/// synchronized events of the composites, each taken by all its participants or by none. An event that
/// is synchronized for a component is taken by it only through the composite.
///
/// ```swift
/// let door = Component("door", machine: doorMachine)
/// let motor = Component("motor", machine: motorMachine)
/// let lift = try Product("lift", [AnyComponent(door), AnyComponent(motor)],
///   synchronize: ["emergencyStop"])
/// ```
///
/// ``TupleProduct`` is the same with the states in a tuple.
public struct Product: Sendable {
  /// The parts, in the order of their states.
  public let components: [AnyComponent]
  /// Who takes what together.
  public let composition: Composition
  private let places: [String: Int]

  /// Composes machines.
  /// - Throws: ``CompositionError`` with everything that is wrong with the composites.
  public init(
    _ components: [AnyComponent], composites: [CompositeDeclaration]
  ) throws(CompositionError) {
    self.components = components
    composition = try Composition(
      composites, machines: components.map { ($0.name, $0.alphabet) })
    places = Dictionary(
      uniqueKeysWithValues: components.enumerated().map { ($0.element.name, $0.offset) })
  }

  /// Composes machines to one composite.
  /// - Throws: ``CompositionError`` with everything that is wrong with it.
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

  func place(of name: String) throws(RoutingError) -> Int {
    guard let place = places[name] else { throw .unknownComponent(name) }
    return place
  }

  /// Whether no component asks for anything in its state, so that only an event from outside moves it.
  ///
  /// As far as states tell: an effect may go on in a later state than the one that started it.
  public func isStable(_ state: ProductState) -> Bool {
    zip(components, state.components).allSatisfy { !$0.hasOutput($1) }
  }
}

/// A state of a ``Product``: one state of each component, in their order.
public struct ProductState: Hashable, Sendable, CustomStringConvertible {
  /// The states of the components.
  public internal(set) var components: [ComponentState]

  init(_ components: [ComponentState]) { self.components = components }

  /// Makes the product's state from theirs.
  public init(_ states: [any MachineState]) { components = states.map { ComponentState($0) } }

  /// The states as Swift writes them: `(closed, idle(floor: 0))`.
  public var description: String {
    "(\(components.map(\.description).joined(separator: ", ")))"
  }
}

/// An event of a ``Product``.
public enum ProductEvent: Sendable {
  /// One component alone takes it.
  case local(component: String, any MachineEvent)
  /// All its participants take it together. `composite` is the one that synchronizes it.
  case synchronized(SynchronizedEvent, composite: String)
}

/// The answer of a ``Product`` to an event.
public enum ProductReduction: Sendable {
  /// The step leads to this state.
  case next(ProductState)
  /// No component moves: these withhold the event.
  case refused([Withholding])
  /// Some transition is asynchronous; calling the closure runs it.
  case suspended(@Sendable () async throws -> ProductState)
}

/// Whether a ``Product`` takes an event in a state, and if not, who withholds it and why.
public struct Enabledness: Sendable {
  /// The event.
  public let event: ProductEvent
  /// Who takes it, if it is taken.
  public let participants: [String]
  /// Who withholds it; empty where it is enabled.
  public let withheld: [Withholding]

  /// Whether every participant takes it.
  public var isEnabled: Bool { withheld.isEmpty }
}

extension Product {
  /// Says whether an event is enabled, and if not, who withholds it.
  /// - Throws: ``RoutingError`` as ``reduce(_:_:)`` does.
  public func enabledness(
    of event: ProductEvent, in state: ProductState
  ) throws(RoutingError) -> Enabledness {
    let steps = try steps(of: event)
    return enabledness(of: event, steps, in: state)
  }

  /// Says so of every event: those of each component alone first, then the synchronized ones.
  ///
  /// Of events with a payload, those are asked that the components were given to explore with.
  public func enabledness(in state: ProductState) -> [Enabledness] {
    alternatives.map { enabledness(of: $0.event, $0.steps, in: state) }
  }

  private func enabledness(
    of event: ProductEvent, _ steps: [(place: Int, any MachineEvent)], in state: ProductState
  ) -> Enabledness {
    let withheld: [Withholding] =
      if case .refused(let withheld) = reduce(state, steps) { withheld } else { [] }
    return Enabledness(
      event: event, participants: steps.map { components[$0.place].name }, withheld: withheld)
  }
}

extension ProductEvent: CustomStringConvertible {
  /// The event with its address: `door: openButtonWasPressed`.
  public var description: String {
    switch self {
    case .local(let component, let event): "\(component): \(event)"
    case .synchronized(let event, let composite): "\(composite): \(event)"
    }
  }
}

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

/// Reads the states of a product one by one, each as its own type.
///
/// Not a local function of those who read: Swift 6.3.1 does not compile a release with a generic
/// function inside one whose parameters are a pack.
final class TupleReader {
  private let state: ProductState
  private var place = -1

  init(_ state: ProductState) { self.state = state }

  func next<Value: MachineState>(_: Value.Type) -> Value {
    place += 1
    guard let value = state.components[place].value as? Value else {
      preconditionFailure("State \(state) is not one of this composite's.")
    }
    return value
  }
}
