/// The failpoints of a node's process and of the lodgers in it, each with a count of its own; a value.
struct FailpointResidents {
  private var counters: [Int: (counter: FailpointCounter, prefix: String)] = [:]
  /// Whose work the process's main thread does.
  var current = 0

  mutating func add(_ counter: FailpointCounter, as resident: Int, prefix: String) {
    counters[resident] = (counter, prefix)
  }

  /// Counts a hit. Returns what it does, the count, and what the line begins with that tells of it.
  /// - Parameter isAtHome: Whether it is the node's own, whoever is at work on the main thread.
  mutating func hit(
    _ point: Failpoint, isAtHome: Bool
  ) -> (action: FailpointAction, count: UInt64, prefix: String)? {
    let resident = isAtHome ? 0 : current
    guard let prefix = counters[resident]?.prefix,
      let (action, count) = counters[resident]?.counter.hit(point)
    else { return nil }
    return (action, count, prefix)
  }
}
