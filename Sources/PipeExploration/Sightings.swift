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
