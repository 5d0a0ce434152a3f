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
