/// All that a ``Product`` can do, found by trying everything.
public struct Exploration: Sendable {
  /// One step from a state to a state, each told by its place in ``Exploration/states``.
  public struct Step: Sendable {
    /// Where it leads from.
    public let from: Int
    /// The event that is taken.
    public let event: ProductEvent
    /// Where it leads to.
    public let to: Int
  }

  /// The states that can be reached, the initial one first, the nearer ones before the farther.
  public let states: [ProductState]
  /// Every step between them.
  public let transitions: [Step]
  /// The states without a step.
  public let deadlocks: [ProductState]
  /// The events of alphabets that were not tried, as no value of their payload was given; what they
  /// would lead to is not among the states.
  public let untried: [String]
  /// For each state but the first, the transition by which it was found.
  private let discoveries: [Int]

  init(
    states: [ProductState], transitions: [Step], deadlocks: [ProductState], untried: [String],
    discoveries: [Int]
  ) {
    self.states = states
    self.transitions = transitions
    self.deadlocks = deadlocks
    self.untried = untried
    self.discoveries = discoveries
  }

  /// A shortest way from the initial state; `nil` for a state that is not reached.
  public func path(to state: ProductState) -> [ProductEvent]? {
    guard var place = states.firstIndex(of: state) else { return nil }
    var path: [ProductEvent] = []
    while place > 0 {
      let step = transitions[discoveries[place - 1]]
      path.append(step.event)
      place = step.from
    }
    return path.reversed()
  }
}

/// Why a ``Product`` could not be explored.
public enum ExplorationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There are more states than allowed.
  case tooManyStates(limit: Int)
  /// A transition is asynchronous, so that only running it would tell where it leads.
  case asynchronous(event: String, state: String)

  /// A sentence that tells it.
  public var description: String {
    switch self {
    case .tooManyStates(let limit):
      """
      there are more than \(limit) states; give a larger limit, or compose fewer or smaller machines
      """
    case .asynchronous(let event, let state):
      "the transition of \(event) in state \(state) is asynchronous and cannot be explored"
    }
  }
}

extension Product {
  /// Finds all states that can be reached, and all steps between them.
  ///
  /// Tries the events that the components were given to explore with. A synchronized event is tried
  /// with every payload that some participant was given for it.
  /// - Parameter limit: The most states to find. Unit: states. Default: 1,000,000.
  public func explore(limit: Int = 1_000_000) throws(ExplorationError) -> Exploration {
    let alternatives = alternatives
    var places = [initial: 0]
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
          let place = places[reached] ?? states.count
          if place == states.count {
            guard place < limit else { throw .tooManyStates(limit: limit) }
            places[reached] = place
            states.append(reached)
            discoveries.append(transitions.count)
          }
          transitions.append(.init(from: next, event: alternative.event, to: place))
        }
      }
      if transitions.count == before { deadlocks.append(state) }
      next += 1
    }
    return Exploration(
      states: states, transitions: transitions, deadlocks: deadlocks, untried: untried,
      discoveries: discoveries)
  }

  /// An event that may be tried in any state, and who takes it.
  typealias Alternative = (event: ProductEvent, steps: [(place: Int, any MachineEvent)])

  /// The events to try: those of each component alone, then the synchronized ones.
  var alternatives: [Alternative] {
    var all: [Alternative] = []
    for (place, component) in components.enumerated() {
      for event in component.events
      where composition.vectors(of: component.name, event: Self.name(of: event)).isEmpty {
        all.append((.local(component: component.name, event), [(place, event)]))
      }
    }
    for vector in composition.vectors {
      for event in payloads(of: vector) {
        // A payload that one participant cannot read is one that the others were given alone.
        guard let steps = try? steps(of: event, in: vector) else { continue }
        all.append((.synchronized(event, composite: vector.composite), steps))
      }
    }
    return all
  }

  /// The values of a synchronized event that its participants were given.
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

  private var untried: [String] {
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
