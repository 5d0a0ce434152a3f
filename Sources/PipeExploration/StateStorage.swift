/// How the states that were met are stored.
package enum StateStorage: Sendable {
  /// Exactly: as one word where a state fits into it, and as a tree of interned words where not.
  case exact
  /// As fingerprints of 64 bits: less memory where states are large, and a state may be taken for another
  /// one and be left out. See ``ExplorationResult/omissionProbability``.
  /// - Parameter seed: Another seed takes other states for each other.
  case fingerprints(seed: UInt64)

  var seed: UInt64 {
    switch self {
    case .exact: 0
    case .fingerprints(let seed): seed
    }
  }
}
