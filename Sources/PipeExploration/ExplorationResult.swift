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
