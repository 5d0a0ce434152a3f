extension Product {
  /// Returns the product's answer to an event. This function is pure, and calls each participant's
  /// `reduce` once.
  /// - Throws: ``RoutingError`` if the component or composite does not have the event, or if the
  ///   event is sent to a single component, but a composite synchronizes the event for that
  ///   component.
  public func reduce(
    _ state: ProductState, _ event: ProductEvent
  ) throws(RoutingError) -> ProductReduction {
    reduce(state, try steps(of: event))
  }

  /// Returns the positions of the components that receive the event, each with the event in the
  /// component's own event type.
  func steps(of event: ProductEvent) throws(RoutingError) -> [(position: Int, any MachineEvent)] {
    switch event {
    case .local(let name, let event):
      let position = try position(of: name)
      let eventName = Self.name(of: event)
      if let vector = composition.vectors(of: name, event: eventName).first {
        throw .requiresComposite(eventName, composite: vector.composite)
      }
      guard components[position].reduce(components[position].initial, event) != nil else {
        throw .noEvent(.unknownCase(eventName, type: "\(type(of: event))"), component: name)
      }
      return [(position, event)]
    case .synchronized(let event, let composite):
      return try steps(of: event, in: composition.vector(event.name, of: composite))
    }
  }

  func steps(
    of event: SynchronizedEvent, in vector: SyncVector
  ) throws(RoutingError) -> [(position: Int, any MachineEvent)] {
    var steps: [(position: Int, any MachineEvent)] = []
    for name in vector.participants {
      let position = try position(of: name)
      do throws(SynchronizedEventError) {
        steps.append((position, try components[position].readEvent(event)))
      } catch {
        throw .noEvent(error, component: name)
      }
    }
    return steps
  }

  func reduce(
    _ state: ProductState, _ steps: [(position: Int, any MachineEvent)]
  ) -> ProductReduction {
    let moves = moves(state, steps)
    var blockers: [BlockingParticipant] = []
    for (position, move) in moves {
      switch move {
      case .refused(let refusal): blockers.append(blockingParticipant(state, position, refusal))
      case .suspended(let transition) where moves.count > 1 && transition.limit == nil:
        blockers.append(blockingParticipant(state, position, .asynchronous))
      case .next, .stays, .ignored, .suspended: break
      }
    }
    return blockers.isEmpty ? apply(moves, to: state) : .refused(blockers)
  }

  /// Returns the state after an event; `nil` if the event is refused, or ignored by all components.
  /// Unlike `reduce`, this function does not determine the reasons for a refusal, because
  /// determining the reasons takes longer than all other work.
  func step(
    _ state: ProductState, _ steps: [(position: Int, any MachineEvent)]
  ) -> ProductReduction? {
    let moves = moves(state, steps)
    var isStep = false
    for (_, move) in moves {
      switch move {
      case .refused: return nil
      case .ignored: break
      case .next, .stays, .suspended: isStep = true
      }
    }
    return isStep ? apply(moves, to: state) : nil
  }

  private typealias Move = (position: Int, reduction: Reduction<ComponentState>)

  private func moves(
    _ state: ProductState, _ steps: [(position: Int, any MachineEvent)]
  ) -> [Move] {
    steps.map { position, event in
      // If the event or the state is not of the component's own type, there is no transition.
      let reduction = components[position].reduce(state.components[position], event)
      return (position, reduction ?? .refused(.noTransition))
    }
  }

  /// Returns `state` with the new states of the components that have accepted the event.
  private func apply(_ moves: [Move], to state: ProductState) -> ProductReduction {
    var next = state
    var suspended: [(Int, SuspendedTransition<ComponentState>)] = []
    for (position, move) in moves {
      switch move {
      case .next(let state), .stays(let state): next.components[position] = state
      case .ignored: break
      case .suspended(let run): suspended.append((position, run))
      case .refused: preconditionFailure("A refused move cannot be applied.")
      }
    }
    if suspended.isEmpty { return .next(next) }
    return .suspended { [next, suspended] in
      var next = next
      for (position, run) in suspended { next.components[position] = try await run() }
      return next
    }
  }

  private func blockingParticipant(
    _ state: ProductState, _ position: Int, _ refusal: Refusal
  ) -> BlockingParticipant {
    BlockingParticipant(
      participant: components[position].name, state: state.components[position].json, version: nil,
      reason: refusal)
  }

  static func name(of event: any MachineEvent) -> String {
    func name<Event: MachineEvent>(_ event: Event) -> String {
      EnumCases.name(of: event) ?? "\(event)"
    }
    return name(event)
  }
}
