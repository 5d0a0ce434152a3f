/// The reachable states and steps of a ``Product``. The exploration tries all events in each state.
public struct Exploration: Sendable {
  /// One step between two states. The states are given by their indices in ``Exploration/states``.
  public struct Step: Sendable {
    /// The index of the state before the step.
    public let sourceIndex: Int
    /// The event of the step.
    public let event: ProductEvent
    /// The index of the state after the step.
    public let targetIndex: Int
  }

  /// The reachable states in breadth-first order, beginning with the initial state.
  public let states: [ProductState]
  /// All steps between the states.
  public let transitions: [Step]
  /// The states without an outgoing step.
  public let deadlocks: [ProductState]
  /// The untried events of the components' alphabets. The exploration has not tried these events,
  /// because no payload was given for them. States that can be reached only by these events are
  /// missing.
  public let untriedEvents: [String]
  /// For each state except the first, the index of the transition that discovered the state.
  private let discoveries: [Int]

  init(
    states: [ProductState], transitions: [Step], deadlocks: [ProductState], untriedEvents: [String],
    discoveries: [Int]
  ) {
    self.states = states
    self.transitions = transitions
    self.deadlocks = deadlocks
    self.untriedEvents = untriedEvents
    self.discoveries = discoveries
  }

  /// Returns the events of a shortest path from the initial state; `nil` if the state is not
  /// reachable.
  public func path(to state: ProductState) -> [ProductEvent]? {
    guard var position = states.firstIndex(of: state) else { return nil }
    var path: [ProductEvent] = []
    while position > 0 {
      let step = transitions[discoveries[position - 1]]
      path.append(step.event)
      position = step.sourceIndex
    }
    return path.reversed()
  }
}

/// The reason why a ``Product`` could not be explored.
public enum ExplorationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There are more states than the limit allows.
  case tooManyStates(limit: Int)
  /// A transition is asynchronous, so its outcome is unknown without running it.
  case asynchronous(event: String, state: String)

  /// A message that describes the error.
  public var description: String {
    switch self {
    case .tooManyStates(let limit):
      """
      more than \(limit) states; raise the limit, or compose fewer or smaller machines
      """
    case .asynchronous(let event, let state):
      "the transition for event '\(event)' in state '\(state)' is asynchronous and cannot be "
        + "explored"
    }
  }
}

extension Product {
  /// Finds all reachable states, and all steps between them.
  ///
  /// The exploration tries the events that the components list in ``Component/events``. A
  /// synchronized event is tried with every payload that a participant lists for the event.
  /// - Parameter limit: The maximum number of states to find. Unit: states. Default: 1,000,000.
  public func explore(limit: Int = 1_000_000) throws(ExplorationError) -> Exploration {
    let alternatives = alternatives
    var stateIndices = [initial: 0]
    var states = [initial]
    var transitions: [Exploration.Step] = []
    var discoveries: [Int] = []
    var deadlocks: [ProductState] = []
    var next = 0
    while next < states.count {
      let state = states[next]
      let before = transitions.count
      for alternative in alternatives {
        switch step(state, alternative.steps) {
        case nil, .refused: continue
        case .suspended:
          throw .asynchronous(event: "\(alternative.event)", state: "\(state)")
        case .next(let reached):
          let position = stateIndices[reached] ?? states.count
          if position == states.count {
            guard position < limit else { throw .tooManyStates(limit: limit) }
            stateIndices[reached] = position
            states.append(reached)
            discoveries.append(transitions.count)
          }
          transitions.append(
            .init(sourceIndex: next, event: alternative.event, targetIndex: position))
        }
      }
      if transitions.count == before { deadlocks.append(state) }
      next += 1
    }
    return Exploration(
      states: states, transitions: transitions, deadlocks: deadlocks, untriedEvents: untriedEvents,
      discoveries: discoveries)
  }

  /// An event that the exploration tries in each state. `steps` contains the position of each
  /// component that receives the event, and the event in the component's own event type.
  typealias Alternative = (event: ProductEvent, steps: [(position: Int, any MachineEvent)])

  /// The events that the exploration tries: the events of single components first, then the
  /// synchronized events.
  var alternatives: [Alternative] {
    var all: [Alternative] = []
    for (position, component) in components.enumerated() {
      for event in component.events
      where composition.vectors(of: component.name, event: Self.name(of: event)).isEmpty {
        all.append((.local(component: component.name, event), [(position, event)]))
      }
    }
    for vector in composition.vectors {
      for event in payloads(of: vector) {
        // Skips a payload that some participant cannot read. Another participant has listed the
        // payload, but the event types of the two participants differ.
        guard let steps = try? steps(of: event, in: vector) else { continue }
        all.append((.synchronized(event, composite: vector.composite), steps))
      }
    }
    return all
  }

  /// Returns the payloads that the participants list for a synchronized event.
  private func payloads(of vector: SyncVector) -> [SynchronizedEvent] {
    var payloads: [SynchronizedEvent] = []
    for component in components where vector.participants.contains(component.name) {
      for event in component.events where Self.name(of: event) == vector.event {
        let payload = SynchronizedEvent(event)
        if !payloads.contains(payload) { payloads.append(payload) }
      }
    }
    return payloads
  }

  private var untriedEvents: [String] {
    components.flatMap { component in
      let tried = Set(component.events.map(Self.name(of:)))
      return component.alphabet.filter { event in
        guard !tried.contains(event) else { return false }
        let vectors = composition.vectors(of: component.name, event: event)
        return vectors.isEmpty || vectors.contains { payloads(of: $0).isEmpty }
      }.map { "\(component.name): \($0)" }
    }
  }
}
