import PipeTopology

/// On which host of an engine's each node runs: those of a place are dealt to its hosts in turn, and who may move goes
/// to another one where its own is lost.
package struct HostAssignment {
  private var hosts: [String: String] = [:]
  /// Where the nodes that may move may go, those hosts first that wait for them.
  private var choices: [String: [String]] = [:]
  /// The hosts of their places.
  private var homes: [String: [String]] = [:]
  /// The hosts that do not answer, and on which processes have ended unseen.
  package private(set) var lost: Set<String> = []

  package init(_ topology: Topology, by deployment: Deployment) {
    var dealt: [String: Int] = [:]
    for node in topology.nodes {
      guard let place = node.place.flatMap(deployment.place), !place.hosts.isEmpty else { continue }
      hosts[node.name] = place.hosts[dealt[place.name, default: 0] % place.hosts.count]
      dealt[place.name, default: 0] += 1
      homes[node.name] = place.hosts
      if node.hostLossPolicy == .move { choices[node.name] = place.spare + place.hosts }
    }
  }

  package func host(of node: String) -> String? { hosts[node] }

  package func mayMove(_ node: String) -> Bool { choices[node] != nil }

  /// Whether a process of a node may be on a host: it is one of its place's, or the node may move there.
  package func mayRun(_ node: String, on host: String) -> Bool {
    homes[node]?.contains(host) == true || choices[node]?.contains(host) == true
  }

  /// A host does not answer.
  package mutating func lose(_ host: String) { lost.insert(host) }

  /// A host answers, or a process on it is heard.
  package mutating func find(_ host: String) { lost.remove(host) }

  /// The host on which a node's next process can start: its own, or of those that are not lost the one with the fewest
  /// nodes; `nil` where all are.
  package func next(for node: String) -> String? {
    guard let present = hosts[node] else { return nil }
    guard lost.contains(present) else { return present }
    var numbers: [String: Int] = [:]
    for host in hosts.values { numbers[host, default: 0] += 1 }
    // Of several with as few, the first.
    return choices[node, default: []].filter { !lost.contains($0) }
      .min { numbers[$0, default: 0] < numbers[$1, default: 0] }
  }

  /// A node's next process starts on that host.
  package mutating func move(_ node: String, to host: String) { hosts[node] = host }
}

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
