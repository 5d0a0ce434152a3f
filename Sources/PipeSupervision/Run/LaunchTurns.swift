/// Whose processes are started on other hosts next: each host takes some at a time, and those that wait lose nothing of
/// the time that a start has.
///
/// A daemon that is asked to start very many at once answers none of them in time.
package struct LaunchTurns: Sendable {
  package typealias Instant = SuspendingClock.Instant

  /// A start that has no turn yet.
  package struct Waiting: Hashable, Sendable {
    package let node: String
    package let incarnation: Int
    package fileprivate(set) var host: String
    /// Since when it has waited, as far as that was not told.
    var since: Instant
  }

  /// How many processes are on their way to one host at most.
  package static let limit = 8

  /// The hosts of those that are on their way.
  private var underway: [String: String] = [:]
  private var waiting: [Waiting] = []

  package init() {}

  /// Whether a start has its turn at once; else it waits for it.
  /// - Parameter isLost: Whether the host does not answer, so that it waits for that.
  package mutating func begin(
    _ node: String, incarnation: Int, on host: String, isLost: Bool = false, at now: Instant
  ) -> Bool {
    if !isLost, hasRoom(host), !waiting.contains(where: { $0.host == host }) {
      underway[node] = host
      return true
    }
    waiting.append(Waiting(node: node, incarnation: incarnation, host: host, since: now))
    return false
  }

  private func hasRoom(_ host: String) -> Bool {
    underway.values.count { $0 == host } < Self.limit
  }

  /// Takes the turns of those that are on their way no more.
  package mutating func end(where isOver: (_ node: String) -> Bool) {
    guard !underway.isEmpty else { return }
    underway = underway.filter { !isOver($0.key) }
  }

  /// Has some wait for other hosts than before.
  package mutating func move(_ next: (Waiting) -> String?) {
    for index in waiting.indices {
      if let host = next(waiting[index]) { waiting[index].host = host }
    }
  }

  /// Takes one that waits and has its turn now, or is to wait no more.
  /// - Parameter isLost: Whether a host does not answer.
  package mutating func next(
    isLost: (_ host: String) -> Bool = { _ in false }, where isOver: (Waiting) -> Bool
  ) -> Waiting? {
    let index = waiting.firstIndex { isOver($0) || !isLost($0.host) && hasRoom($0.host) }
    guard let index else { return nil }
    let next = waiting.remove(at: index)
    if !isOver(next) { underway[next.node] = next.host }
    return next
  }

  /// How long each has waited since this was last asked.
  package mutating func takeTimes(at now: Instant) -> [(node: String, time: Duration)] {
    let times = waiting.map { (node: $0.node, time: now - $0.since) }
    for index in waiting.indices { waiting[index].since = now }
    return times
  }
}
