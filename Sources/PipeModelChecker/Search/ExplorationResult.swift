/// A state that a search has met; ``Exploration/path(to:)`` tells how.
package struct StateReference: Hashable, Sendable {
  let partition: Int
  let number: Int
  /// The steps on a shortest path to it.
  package let depth: Int
}

/// What ended a search before all states were met.
package enum ExplorationLimit: Hashable, Sendable {
  case states
  case time
  case memory
  /// A component has more local states than the limit.
  case localStates(component: Int)
  /// The task was cancelled.
  case cancelled
  /// Somebody did not want it to go on.
  case stopped
}

/// States that were found, of which the first are kept, the nearest one first.
package struct FoundStates: Sendable {
  package var count = 0
  package var first: [StateReference] = []
}

/// What a search has found out.
package struct ExplorationResult: Sendable {
  package enum Verdict: Equatable, Sendable {
    /// All reachable states were met: what was not found is not there.
    case complete
    /// Only what was found is certain.
    case incomplete(ExplorationLimit)
  }

  package enum Possibility: Sendable {
    case always
    /// The nearest state from which no state with the observation can be reached.
    case lost(StateReference)
    /// As ``lost(_:)``, but a state where one of ``ExplorationQuestions/bounds`` holds can be reached from each
    /// such state: the system may have more steps there.
    case lostWithinBounds(StateReference)
    /// The search was not complete, or the graph backwards does not fit into the memory.
    case undecided
  }

  package var verdict: Verdict
  package var states: Int
  /// The steps that were taken: all of the states that were searched, or a part of them where `isReduced`.
  package var steps: Int
  /// The steps on the shortest path to the farthest state.
  package var depth: Int
  /// The most memory that was in use. Unit: bytes.
  package var peakByteCount: Int
  /// Whether steps were left out that only change the order of others, and states with them. Deadlocks, stuck
  /// states and what must never hold are still all found by shortest paths, and the rest by some path.
  package var isReduced: Bool
  /// Whether states are stored exactly, and fingerprints of them would take less memory.
  package var wouldFingerprintsSave = false
  package var deadlocks = FoundStates()
  package var stuck = FoundStates()
  /// For each observation of ``ExplorationQuestions/never`` that holds somewhere the nearest such state.
  package var violations: [Int: StateReference] = [:]
  package var possibilities: [Int: Possibility] = [:]
  /// The observations of ``ExplorationQuestions/bounds`` that hold in a state that was met.
  package var reachedBounds: Set<Int> = []
  /// Vectors that are enabled in no reachable state; `nil` where that was not asked or not found out.
  package var neverEnabled: [Int]?
  /// For each component the local states that it is never in; `nil` where that was not asked or not found
  /// out.
  package var unreachable: [[Int]]?
  /// The probability that at least one state was taken for another one and left out; `nil` where storage is
  /// exact.
  package var omissionProbability: Double?
}

/// A shortest path from the first state to another one.
package struct ExplorationPath: Equatable, Sendable {
  /// The local state of each component, first those at the start.
  package private(set) var states: [[Int]]
  /// The vector of each step; one less than states. Where several lead from a state to the next, the first.
  package private(set) var vectors: [Int]

  init(
    to state: StateReference, in partitions: [Partition], _ model: ExplorationModel,
    _ program: CompiledModel
  ) {
    var chain = [(partition: state.partition, number: state.number)]
    while let origin = partitions[chain[chain.count - 1].partition]
      .origin(ofState: chain[chain.count - 1].number)
    {
      chain.append(origin)
    }
    states = [model.components.map(\.initial)]
    vectors = []
    for (partition, number) in chain.reversed().dropFirst() {
      let partition = partitions[partition]
      let locals = partition.isExact ? partition.locals(of: number) : nil
      let step = model.steps(from: states[states.count - 1]).first { _, target in
        if let locals { return target == locals }
        return program.fingerprint(program.layout.encode(target)) == partition.key(of: number)
      }
      guard let step else { return }
      states.append(step.target)
      vectors.append(step.vector)
    }
  }
}

extension ExplorationModel {
  /// The local state of each component at the start.
  package var initialState: [Int] { components.map(\.initial) }

  /// The steps from a state, as far as its cells are known.
  package func steps(from state: [Int]) -> some Sequence<(vector: Int, target: [Int])> {
    vectors.enumerated().lazy.compactMap { number, vector in
      var target = state
      for role in vector.roles {
        guard let next = self.target(of: role, in: state[role.component]) else { return nil }
        target[role.component] = next
      }
      return (number, target)
    }
  }

  /// Where a role leads; `nil` where it blocks, or that is not known.
  ///
  /// A vector that was added late knows nothing of contents that a queue had before, and that a search had
  /// no need to ask for again.
  private func target(of role: Role, in state: Int) -> Int? {
    let target = role.target(in: state)
    if target >= 0 { return Int(target) }
    guard target == Role.unknown, let operation = role.operation else { return nil }
    return components[role.component].queue?.knownNumber(after: operation, in: state)
  }

  /// Fills in what vectors do to contents of queues that were met, so far as that leads to others that were.
  package mutating func fillQueues() {
    for (number, vector) in vectors.enumerated() {
      for (place, role) in vector.roles.enumerated() where role.operation != nil {
        for state in 0..<components[role.component].stateCount
        where role.target(in: state) == Role.unknown {
          let next = target(of: role, in: state)
          set(next.map { .leads(to: $0) } ?? .blocked, ofRole: place, in: number, state)
        }
      }
    }
  }
}

/// What a search has to find out. Observations are those of the model, by number.
package struct ExplorationQuestions: Sendable {
  /// Whether states without a step are found, but for those where one of `ends` holds.
  package var deadlocks = true
  package var ends: Set<Int> = []
  /// Whether states are found whose steps all come from outside, but for those where one of `rests` holds.
  package var stuck = false
  package var rests: Set<Int> = []
  /// Observations that hold where the model may have fewer steps than the system it stands for, as where a queue is
  /// full that is larger in the system. The result lists those that were reached; none of them is a finding.
  package var bounds: Set<Int> = []
  /// Observations that hold in no reachable state.
  package var never: Set<Int> = []
  /// Observations that can be reached from every reachable state.
  package var alwaysPossible: Set<Int> = []
  /// Whether vectors that are never enabled and local states that are not reached are found.
  package var coverage = false

  /// Whether each step that can be taken is taken at least once, so that every cell is demanded that any
  /// order of steps needs, and every local state is met.
  package var everyStep = false
  /// Whether all states are met, and not only a part of them that is enough for the answers.
  package var allStates = false

  package init() {}

  /// The observations whose first state is kept.
  var watched: Set<Int> { never.union(bounds) }

  /// Whether no step may be put off for ever: what is to be found is then found in states that differ from
  /// those that a whole search finds, and not by a shortest path.
  var forbidsIgnoring: Bool { coverage || everyStep || !alwaysPossible.isEmpty }

  /// Whether steps may be left out. A fingerprint does not tell a state, which has to be searched again where a step
  /// was put off.
  func allowReduction(_ storage: StateStorage) -> Bool {
    // Whether a bound can be reached from a state is asked of each state, and not only of the first one.
    if allStates || !bounds.isEmpty && !alwaysPossible.isEmpty { return false }
    return switch storage {
    case .exact: true
    case .fingerprints: !forbidsIgnoring
    }
  }

  /// From which of its enabled vectors a part of a state's steps is begun.
  var seeds: StubbornSet.Seeds {
    if stuck { return .inside }
    return deadlocks || forbidsIgnoring ? .all : .none
  }
}

/// What one partition of a search has met.
struct Sightings {
  /// States that were found, of which the first are kept.
  struct Found {
    private(set) var count = 0
    private(set) var first: [Int] = []

    mutating func add(_ state: Int, keeping limit: Int) {
      count += 1
      if first.count < limit { first.append(state) }
    }
  }

  var deadlocks = Found()
  var stuck = Found()
  /// For each observation that must never hold the first state where it does.
  var observed: [Int: Int] = [:]
  /// The vectors that were enabled.
  var fired: Set<Int> = []
  /// For each component the local states that were met.
  var seen: [Set<Int>] = []
}
