/// What a search has to find out. Observations are those of the model, by number.
package struct ExplorationQuestions: Sendable {
  /// Whether states without a step are found, but for those where one of `ends` holds.
  package var deadlocks = true
  package var ends: Set<Int> = []
  /// Whether states are found whose steps all come from outside, but for those where one of `rests` holds.
  package var stuck = false
  package var rests: Set<Int> = []
  /// Observations that hold in no reachable state.
  package var never: Set<Int> = []
  /// Observations that can be reached from every reachable state.
  package var alwaysPossible: Set<Int> = []
  /// Whether vectors that are never enabled and local states that are not reached are found.
  package var coverage = false

  package init() {}

  /// Whether the answers are the same where steps are left out that only change the order of others.
  var allowReduction: Bool { !stuck && alwaysPossible.isEmpty && !coverage }
}
