/// How far a search goes, and with what.
package struct ExplorationOptions: Sendable {
  package var storage: StateStorage = .exact
  /// Threads that search, each of which keeps a part of the states. Range: 1…64.
  package var threads = 1
  /// Leaves out steps that only change the order of others, as far as the answers are the same.
  package var reduces = false
  /// Unit: states.
  package var stateLimit = Int.max
  /// `nil`: no limit.
  package var timeLimit: Duration?
  /// The memory of states, tables and what lies between. Unit: bytes.
  package var memoryLimit = 1 << 30
  /// The local states of one component, above which the search ends.
  package var localStateLimit = 1 << 20
  /// The deadlocks, and the stuck states, that are kept so that their paths can be told.
  package var keptStates = 64
  /// The bits of a word that are used; less than 64 tries with small models what large ones do.
  package var wordBits = 64

  package init() {}
}
