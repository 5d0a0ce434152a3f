/// What processes on other hosts were granted that must not go on without their orchestrator; a pure value.
///
/// A process counts its lease from when it asked, and here it counts from the answer, which is later, and a tenth
/// longer, since clocks differ: when it is over here, the process has ended. Instants are in nanoseconds of a clock
/// that goes on while the machine sleeps.
package struct Leases: Sendable {
  private struct Lease: Sendable {
    let incarnation: UInt64
    /// When it is over; `nil` where none was granted: then the process has opened nothing.
    var end: Int64?
    var isGivenUp = false
  }

  private var leases: [String: Lease] = [:]
  /// Whether no process has one.
  package var isEmpty: Bool { leases.isEmpty }
  /// How long one is here. Unit: nanoseconds.
  private let term: Int64
  /// Before that, no lease counts as over: a former orchestrator may have granted it.
  private let begin: Int64

  /// - Parameters:
  ///   - term: How long a process may go on. Unit: nanoseconds.
  ///   - now: When this orchestrator has begun.
  package init(term: Int64, at now: Int64) {
    self.term = term + term / 10
    begin = now + self.term
  }

  /// Whether a process of a node may have one.
  package func has(_ node: String) -> Bool { leases[node] != nil }

  /// A process is about to start, which has none so far.
  package mutating func begin(_ node: String, incarnation: UInt64) {
    leases[node] = Lease(incarnation: incarnation)
  }

  /// A process asks for its lease.
  /// - Returns: Whether it is to be answered that the lease goes on.
  package mutating func renew(_ node: String, incarnation: UInt64, at now: Int64) -> Bool {
    guard let lease = leases[node], lease.incarnation == incarnation, !lease.isGivenUp else {
      return false
    }
    leases[node]?.end = now + term
    return true
  }

  /// A process is to end: it is granted nothing more.
  package mutating func giveUp(_ node: String) { leases[node]?.isGivenUp = true }

  /// Its process has ended.
  package mutating func forget(_ node: String) { leases[node] = nil }

  /// Whether the process of a node has certainly ended, or will never open anything; it is given up then.
  package mutating func isOver(_ node: String, at now: Int64) -> Bool {
    guard let lease = leases[node], now >= max(begin, lease.end ?? begin) else { return false }
    giveUp(node)
    return true
  }
}
