/// A reference to a visited state; ``Exploration/path(to:)`` returns a path to the state.
package struct StateReference: Hashable, Sendable {
  let partition: Int
  let number: Int
  /// The number of steps on a shortest path to the state.
  package let depth: Int
}

/// The reason why a search ended before it visited all states.
package enum ExplorationLimit: Hashable, Sendable {
  case states
  case time
  case memory
  /// A component has more local states than the limit.
  case localStates(component: Int)
  /// The task was cancelled.
  case cancelled
  /// The caller stopped the search.
  case stopped
}

/// The states of one kind: their number, and the nearest ones in order of distance.
package struct FoundStates: Sendable {
  package var count = 0
  package var first: [StateReference] = []
}

/// The result of a search.
package struct ExplorationResult: Sendable {
  package enum Verdict: Equatable, Sendable {
    /// All reachable states were visited: anything that was not found does not exist.
    case complete
    /// Only the findings are certain.
    case incomplete(ExplorationLimit)
  }

  package enum Possibility: Sendable {
    case always
    /// The nearest state from which no state with the observation can be reached.
    case lost(StateReference)
    /// As ``lost(_:)``, but each such state can reach a state where one of
    /// ``ExplorationQuestions/bounds`` holds. The system may have more steps there.
    case lostWithinBounds(StateReference)
    /// The search was not complete, or the graph of all states did not fit into memory.
    case undecided
  }

  package var verdict: Verdict
  package var states: Int
  /// The number of steps taken: all steps of the searched states, or fewer if `isReduced`.
  package var steps: Int
  /// The number of steps on the shortest path to the farthest state.
  package var depth: Int
  /// The peak memory use. Unit: bytes.
  package var peakByteCount: Int
  /// Whether partial-order reduction skipped steps and states.
  ///
  /// Deadlocks, stuck states and violations of ``ExplorationQuestions/never`` are still all found
  /// by shortest paths, and other findings by some path.
  package var isReduced: Bool
  /// Whether states are stored exactly, and fingerprints would need less memory.
  package var fingerprintsSaveMemory = false
  package var deadlocks = FoundStates()
  package var stuck = FoundStates()
  /// The nearest state for each observation of ``ExplorationQuestions/never`` that holds somewhere.
  package var violations: [Int: StateReference] = [:]
  package var possibilities: [Int: Possibility] = [:]
  /// The observations of ``ExplorationQuestions/bounds`` that hold in a visited state.
  package var reachedBounds: Set<Int> = []
  /// The vectors that are not enabled in any reachable state; `nil` if this was not asked or not decided.
  package var neverEnabled: [Int]?
  /// For each component, the local states that are never reached; `nil` if this was not asked or
  /// not decided.
  package var unreachable: [[Int]]?
  /// The probability that at least one state was mistaken for another state and left out; `nil` for
  /// exact storage.
  package var omissionProbability: Double?
}

/// A path from the first state to another state: a shortest path, unless the search is reduced.
package struct ExplorationPath: Equatable, Sendable {
  /// The local state of each component in each state, from the first state on.
  package private(set) var states: [[Int]]
  /// The vector of each step: the first vector, if several have the same effect. There is one
  /// vector fewer than states.
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
  /// The initial local state of each component.
  package var initialState: [Int] { components.map(\.initial) }

  /// Returns the steps from a state, as far as its cells are known.
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

  /// Returns the target of a role; `nil` if the role blocks the vector, or the target is unknown.
  ///
  /// A vector that was added late has no cells for queue contents that were found earlier, if the
  /// search did not need them again.
  private func target(of role: Role, in state: Int) -> Int? {
    let target = role.target(in: state)
    if target >= 0 { return Int(target) }
    guard target == Role.unknown, let operation = role.operation else { return nil }
    return components[role.component].queue?.knownNumber(after: operation, in: state)
  }

  /// Fills in the effects of vectors on known queue contents; effects that lead to new contents are
  /// blocked.
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

/// The questions that a search answers. Observations are given by their numbers in the model.
package struct ExplorationQuestions: Sendable {
  /// Whether to find states without a step, except for states where one of `ends` holds.
  package var deadlocks = true
  package var ends: Set<Int> = []
  /// Whether to find states whose steps all come from outside, except for states where one of
  /// `rests` holds.
  package var stuck = false
  package var rests: Set<Int> = []
  /// Observations that hold where the model may have fewer steps than the modeled system, for
  /// example where a queue is full that is larger in the system. The result lists the reached ones;
  /// they are not findings.
  package var bounds: Set<Int> = []
  /// Observations that must not hold in any reachable state.
  package var never: Set<Int> = []
  /// Observations that must be reachable from every reachable state.
  package var alwaysPossible: Set<Int> = []
  /// Whether to find vectors that are never enabled, and local states that are never reached.
  package var coverage = false

  /// Whether to take each possible step at least once.
  ///
  /// Then the search demands every cell that any order of steps needs, and visits every local
  /// state.
  package var takesEveryStep = false
  /// Whether to visit all states, rather than a part of them that is enough for the answers.
  package var visitsAllStates = false

  package init() {}

  /// The observations whose first state is kept.
  var watched: Set<Int> { never.union(bounds) }

  /// Whether no step may be postponed forever.
  ///
  /// The findings are then found in other states than in a full search, and not by shortest paths.
  var forbidsIgnoring: Bool { coverage || takesEveryStep || !alwaysPossible.isEmpty }

  /// Returns whether the search may skip steps.
  ///
  /// If a step was postponed, its state must be searched again, but a fingerprint does not contain
  /// the state.
  func allowsReduction(_ storage: StateStorage) -> Bool {
    // The search must know for every state whether it can reach a bound, and not only for the first
    // state.
    if visitsAllStates || !bounds.isEmpty && !alwaysPossible.isEmpty { return false }
    return switch storage {
    case .exact: true
    case .fingerprints: !forbidsIgnoring
    }
  }

  /// The enabled vectors from which stubborn sets start.
  var seeds: StubbornSet.Seeds {
    if stuck { return .inside }
    return deadlocks || forbidsIgnoring ? .all : .none
  }
}

/// The findings of one partition of a search.
struct PartitionFindings {
  /// The states of one kind: their number, and the first ones found.
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
  /// For each watched observation, the first state where it holds.
  var observed: [Int: Int] = [:]
  /// The vectors that were enabled in some state.
  var fired: Set<Int> = []
  /// For each component, the local states that were visited.
  var seen: [Set<Int>] = []
}
