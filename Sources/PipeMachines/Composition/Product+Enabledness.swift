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
