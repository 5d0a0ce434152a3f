extension Product {
  /// Evaluates an event. This function is pure, and calls `reduce` once for each participant.
  /// - Throws: ``RoutingError`` if the component or composite does not have the event, or if the
  ///   event is sent to a component for which it is synchronized.
  public func reduce(
    _ state: ProductState, _ event: ProductEvent
  ) throws(RoutingError) -> ProductReduction {
    reduce(state, try steps(of: event))
  }

  /// Returns the components that receive the event, each with its own form of the event.
  func steps(of event: ProductEvent) throws(RoutingError) -> [(place: Int, any MachineEvent)] {
    switch event {
    case .local(let name, let event):
      let place = try place(of: name)
      let eventName = Self.name(of: event)
      if let vector = composition.vectors(of: name, event: eventName).first {
        throw .synchronizedOutside(eventName, composite: vector.composite)
      }
      guard components[place].reduce(components[place].initial, event) != nil else {
        throw .noEvent(.unknownCase(eventName, type: "\(type(of: event))"), component: name)
      }
      return [(place, event)]
    case .synchronized(let event, let composite):
      return try steps(of: event, in: composition.vector(event.name, of: composite))
    }
  }

  func steps(
    of event: SynchronizedEvent, in vector: SyncVector
  ) throws(RoutingError) -> [(place: Int, any MachineEvent)] {
    var steps: [(place: Int, any MachineEvent)] = []
    for name in vector.participants {
      let place = try place(of: name)
      do throws(SynchronizedEventError) {
        steps.append((place, try components[place].read(event)))
      } catch {
        throw .noEvent(error, component: name)
      }
    }
    return steps
  }

  func reduce(
    _ state: ProductState, _ steps: [(place: Int, any MachineEvent)]
  ) -> ProductReduction {
    let moves = moves(state, steps)
    var withheld: [Withholding] = []
    for (place, move) in moves {
      switch move {
      case .refused(let refusal): withheld.append(withholding(state, place, refusal))
      case .suspended(let transition) where moves.count > 1 && transition.limit == nil:
        withheld.append(withholding(state, place, .asynchronous))
      case .next, .suspended: break
      }
    }
    return withheld.isEmpty ? apply(moves, to: state) : .refused(withheld)
  }

  /// Evaluates an event without the reasons of a refusal, which cost more than everything else.
  /// Returns `nil` if the event is refused.
  func step(
    _ state: ProductState, _ steps: [(place: Int, any MachineEvent)]
  ) -> ProductReduction? {
    let moves = moves(state, steps)
    for (_, move) in moves {
      if case .refused = move { return nil }
    }
    return apply(moves, to: state)
  }

  private typealias Move = (place: Int, reduction: Reduction<ComponentState>)

  private func moves(
    _ state: ProductState, _ steps: [(place: Int, any MachineEvent)]
  ) -> [Move] {
    steps.map { place, event in
      // An event or a state of another type has no transition.
      let reduction = components[place].reduce(state.components[place], event)
      return (place, reduction ?? .refused(.noTransition))
    }
  }

  /// Applies moves that are not refused.
  private func apply(_ moves: [Move], to state: ProductState) -> ProductReduction {
    var next = state
    var suspended: [(Int, SuspendedTransition<ComponentState>)] = []
    for (place, move) in moves {
      switch move {
      case .next(let state): next.components[place] = state
      case .suspended(let run): suspended.append((place, run))
      case .refused: preconditionFailure("A refused move cannot be applied.")
      }
    }
    if suspended.isEmpty { return .next(next) }
    return .suspended { [next, suspended] in
      var next = next
      for (place, run) in suspended { next.components[place] = try await run() }
      return next
    }
  }

  private func withholding(
    _ state: ProductState, _ place: Int, _ refusal: Refusal
  ) -> Withholding {
    Withholding(
      participant: components[place].name, state: state.components[place].json, version: nil,
      reason: refusal)
  }

  static func name(of event: any MachineEvent) -> String {
    func name<Event: MachineEvent>(_ event: Event) -> String {
      EnumCases.name(of: event) ?? "\(event)"
    }
    return name(event)
  }
}
