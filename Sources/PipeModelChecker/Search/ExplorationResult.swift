/// A reference to a visited state. ``Exploration/path(to:)`` returns a path to the state.
package struct StateReference: Hashable, Sendable {
  let partition: Int
  let number: Int
  /// The distance of the state from the initial state: the number of steps on the path by which the
  /// search found the state.
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

/// The states of one kind that a search has found: the number of states, and the states nearest to
/// the initial state, in order of distance.
package struct FoundStates: Sendable {
  package var count = 0
  package var firstStates: [StateReference] = []
}

/// The result of a search.
package struct ExplorationResult: Sendable {
  package enum Verdict: Equatable, Sendable {
    /// The search visited all reachable states, so there are no other findings.
    case complete
    /// The search ended at a limit. Its findings are certain, but there may be others.
    case incomplete(ExplorationLimit)
  }

  package enum Possibility: Sendable {
    case always
    /// The observation is not always possible. The reference is the nearest state from which no
    /// state with the observation can be reached.
    case lost(StateReference)
    /// The observation is not always possible in the model, but may be in the system. The model has
    /// states without a path to the observation, but each of them can reach a state where one of
    /// ``ExplorationQuestions/boundObservations`` holds, and the system may have more steps there. The
    /// reference is the nearest state without a path.
    case lostWithinBounds(StateReference)
    /// Unknown: the search was incomplete or stored only fingerprints, or the graph of all states
    /// did not fit into memory.
    case undecided
  }

  package var verdict: Verdict
  package var stateCount: Int
  /// The number of steps that the search took. A reduced search does not take all steps that the
  /// visited states permit.
  package var stepCount: Int
  /// The greatest distance of a visited state from the initial state. Unit: steps.
  package var depth: Int
  /// The peak memory use. Unit: bytes.
  package var peakByteCount: Int
  /// Whether the search was reduced (by partial-order reduction, or by symmetries), so that steps
  /// and states were skipped.
  ///
  /// A reduced search still finds all deadlocks, stuck states and violations of
  /// ``ExplorationQuestions/neverObservations`` with shortest paths. The paths to other findings may be longer.
  package var isReduced: Bool
  /// Whether the search stored states exactly, and would need less memory with fingerprints.
  package var fingerprintsSaveMemory = false
  package var deadlocks = FoundStates()
  package var stuckStates = FoundStates()
  /// The nearest state in which an observation of ``ExplorationQuestions/neverObservations`` holds, by observation.
  package var violations: [Int: StateReference] = [:]
  package var possibilities: [Int: Possibility] = [:]
  /// The observations of ``ExplorationQuestions/boundObservations`` that hold in some visited state.
  package var reachedBounds: Set<Int> = []
  /// The vectors that are not enabled in any reachable state; `nil` if unknown, or if the questions
  /// do not include coverage.
  package var neverEnabledVectors: [Int]?
  /// The local states that are never reached, by component; `nil` if unknown, or if the questions
  /// do not include coverage.
  package var unreachableStates: [[Int]]?
  /// The probability that the search missed at least one state, because its fingerprint equals
  /// another state's fingerprint; `nil` for exact storage.
  package var omissionProbability: Double?
}

/// A path from the initial state to another state. The path is a shortest path, unless the search
/// is reduced.
///
/// A search with symmetries stores a representative of each state. The path consists of steps of the
/// model, and its last state is the stored state.
package struct ExplorationPath: Equatable, Sendable {
  /// The states of the path, from the initial state on. Each is given by the local state of each
  /// component.
  package private(set) var states: [[Int]]
  /// The vector of each step: one element fewer than `states`. If several vectors have the same
  /// effect, this is the first of these vectors.
  package private(set) var vectors: [Int]

  init(states: [[Int]], vectors: [Int]) {
    self.states = states
    self.vectors = vectors
  }

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
    states = [model.components.map(\.initialState)]
    vectors = []
    for (partition, number) in chain.reversed().dropFirst() {
      let partition = partitions[partition]
      let locals = partition.isExact ? partition.locals(of: number) : nil
      let step = model.steps(from: states[states.count - 1]).first { _, target in
        let target = model.representative(of: target)
        if let locals { return target == locals }
        return program.fingerprint(program.layout.encode(target)) == partition.key(of: number)
      }
      guard let step else { return }
      states.append(step.target)
      vectors.append(step.vector)
    }
    rename(in: model)
  }

  /// Applies a symmetry to the path, so that the path ends in the representative of the last state.
  private mutating func rename(in model: ExplorationModel) {
    guard let last = states.last else { return }
    let representative = model.representative(of: last)
    guard last != representative,
      let symmetry = model.symmetries.first(where: { $0.image(of: last) == representative })
    else { return }
    let images = states.map(symmetry.image(of:))
    var steps: [Int] = []
    for (state, next) in zip(images, images.dropFirst()) {
      guard let step = model.steps(from: state).first(where: { $0.target == next }) else { return }
      steps.append(step.vector)
    }
    (states, vectors) = (images, steps)
  }
}

extension ExplorationModel {
  /// The initial local state of each component.
  package var initialState: [Int] { components.map(\.initialState) }

  /// Returns the steps that are possible in a state, except steps whose cells are unknown.
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
  /// If a vector was added late, its cells for earlier contents of a queue may be unknown. Computes
  /// the target in this case.
  private func target(of role: Role, in state: Int) -> Int? {
    let target = role.target(in: state)
    if target >= 0 { return Int(target) }
    guard target == Role.unknownTarget, let operation = role.operation else { return nil }
    return components[role.component].queue?.knownNumber(after: operation, in: state)
  }

  /// Fills the unknown cells of queues. If a vector would lead to contents that are not known, the
  /// cell becomes blocked.
  package mutating func fillQueues() {
    for (number, vector) in vectors.enumerated() {
      for (place, role) in vector.roles.enumerated() where role.operation != nil {
        for state in 0..<components[role.component].stateCount
        where role.target(in: state) == Role.unknownTarget {
          let next = target(of: role, in: state)
          set(next.map { .leads(to: $0) } ?? .blocked, ofRole: place, in: number, state)
        }
      }
    }
  }
}

/// The questions that a search answers. Numbers identify the observations of the model.
package struct ExplorationQuestions: Sendable {
  /// Whether to find deadlocks, which are states without a step. A state in which an observation of
  /// `endObservations` holds does not count as a deadlock.
  package var findsDeadlocks = true
  package var endObservations: Set<Int> = []
  /// Whether to find stuck states, in which every step requires an event from outside. A state in
  /// which an observation of `restObservations` holds does not count as stuck.
  package var findsStuckStates = false
  package var restObservations: Set<Int> = []
  /// Observations that mark states in which a bound of the model may hide steps of the modeled
  /// system. An example is a queue that is full in the model, but has a higher capacity in the
  /// system. If such an observation holds in a visited state, the result lists the observation
  /// separately from the findings.
  package var boundObservations: Set<Int> = []
  /// Observations that must not hold in any reachable state.
  package var neverObservations: Set<Int> = []
  /// Observations that must be reachable from every reachable state.
  package var alwaysPossibleObservations: Set<Int> = []
  /// Whether to find vectors that are never enabled, and local states that are never reached.
  package var findsCoverage = false

  /// Whether to take each possible step in at least one state.
  ///
  /// If so, the search demands every cell that is required in some order of the steps, and visits
  /// every local state.
  package var takesEveryStep = false
  /// Whether to visit all states, even states that a reduced search may omit.
  package var visitsAllStates = false

  package init() {}

  /// The observations for which the search records the first state in which they hold.
  var watchedObservations: Set<Int> { neverObservations.union(boundObservations) }

  /// Whether a reduced search must not postpone a step forever.
  ///
  /// If so, the paths to findings may be longer than in a full search, and the findings may be in
  /// other states.
  var forbidsIgnoring: Bool {
    findsCoverage || takesEveryStep || !alwaysPossibleObservations.isEmpty
  }

  /// Returns whether the search may be reduced, so that it skips steps.
  ///
  /// With fingerprints, a search that must not postpone steps forever cannot be reduced: it would
  /// have to search states again, and a fingerprint does not contain the state.
  func allowsReduction(_ storage: StateStorage) -> Bool {
    // For these questions, the search must visit all states, and find out for every state whether
    // the state can reach a bound.
    if visitsAllStates || !boundObservations.isEmpty && !alwaysPossibleObservations.isEmpty {
      return false
    }
    return switch storage {
    case .exact: true
    case .fingerprints: !forbidsIgnoring
    }
  }

  /// The enabled vectors from which the stubborn sets of a reduced search start.
  var stubbornSetSeeds: StubbornSet.Seeds {
    if findsStuckStates { return .inside }
    return findsDeadlocks || forbidsIgnoring ? .all : .none
  }
}

/// The findings of one partition of a search.
struct PartitionFindings {
  /// The states of one kind: their number, and the states that were found first.
  struct Found {
    private(set) var count = 0
    private(set) var first: [Int] = []

    mutating func add(_ state: Int, keeping limit: Int) {
      count += 1
      if first.count < limit { first.append(state) }
    }
  }

  var deadlocks = Found()
  var stuckStates = Found()
  /// The first state in which a watched observation holds, by observation.
  var observedStates: [Int: Int] = [:]
  /// The vectors that were enabled in some state.
  var firedVectors: Set<Int> = []
  /// The visited local states, by component.
  var seenStates: [Set<Int>] = []
}
