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
