import PipeTopology

/// The assignment of nodes to the hosts of an engine. The nodes of a place are distributed over its
/// hosts in turn. A node that may move gets another host if its own is lost.
package struct HostAssignment {
  private var hosts: [String: String] = [:]
  /// By node that may move: the hosts that it may move to, the spare hosts first.
  private var moveTargets: [String: [String]] = [:]
  /// By node: the hosts of its place.
  private var placementHosts: [String: [String]] = [:]
  /// The hosts that do not answer, and on which processes have ended unobserved.
  package private(set) var lost: Set<String> = []

  package init(_ topology: Topology, by deployment: Deployment) {
    var assignedCounts: [String: Int] = [:]
    for node in topology.nodes {
      guard let place = node.place.flatMap(deployment.place), !place.hosts.isEmpty else { continue }
      hosts[node.name] = place.hosts[assignedCounts[place.name, default: 0] % place.hosts.count]
      assignedCounts[place.name, default: 0] += 1
      placementHosts[node.name] = place.hosts
      if node.hostLossPolicy == .move { moveTargets[node.name] = place.spare + place.hosts }
    }
  }

  package func host(of node: String) -> String? { hosts[node] }

  package func mayMove(_ node: String) -> Bool { moveTargets[node] != nil }

  /// Whether a process of a node may be on a host: the host belongs to the node's place, or the node
  /// may move there.
  package func mayRun(_ node: String, on host: String) -> Bool {
    placementHosts[node]?.contains(host) == true || moveTargets[node]?.contains(host) == true
  }

  /// Marks a host that does not answer as lost.
  package mutating func lose(_ host: String) { lost.insert(host) }

  /// Marks a host as found, because it answers or one of its processes does.
  package mutating func find(_ host: String) { lost.remove(host) }

  /// Returns the host on which the next process of a node can start: its own host, or else the
  /// available host with the fewest nodes. Returns `nil` if all hosts are lost.
  package func next(for node: String) -> String? {
    guard let present = hosts[node] else { return nil }
    guard lost.contains(present) else { return present }
    var nodeCounts: [String: Int] = [:]
    for host in hosts.values { nodeCounts[host, default: 0] += 1 }
    // Among several hosts with the fewest nodes, the first is chosen.
    return moveTargets[node, default: []].filter { !lost.contains($0) }
      .min { nodeCounts[$0, default: 0] < nodeCounts[$1, default: 0] }
  }

  /// Assigns a node's next process to a host.
  package mutating func move(_ node: String, to host: String) { hosts[node] = host }
}

/// The queue of processes to start on other hosts. Each host starts a limited number of processes at a
/// time; the time in the queue does not count towards the start timeout.
///
/// A daemon that has to start very many processes at once answers none of them in time.
package struct LaunchQueue: Sendable {
  package typealias Instant = SuspendingClock.Instant

  /// A start in the queue.
  package struct QueuedLaunch: Hashable, Sendable {
    package let node: String
    package let incarnation: Int
    package fileprivate(set) var host: String
    /// The instant since which the waiting time has not been reported yet.
    var since: Instant
  }

  /// The maximum number of processes that start on one host at the same time.
  package static let limit = 8

  /// By node: the host of a process that is starting.
  private var startingNodes: [String: String] = [:]
  private var waiting: [QueuedLaunch] = []

  package init() {}

  /// Requests a start.
  /// - Parameter isLost: Whether the host does not answer, so that the start must wait for it.
  /// - Returns: Whether the process can start at once. Otherwise, the start is queued.
  package mutating func begin(
    _ node: String, incarnation: Int, on host: String, isLost: Bool = false, at now: Instant
  ) -> Bool {
    if !isLost, hasCapacity(host), !waiting.contains(where: { $0.host == host }) {
      startingNodes[node] = host
      return true
    }
    waiting.append(QueuedLaunch(node: node, incarnation: incarnation, host: host, since: now))
    return false
  }

  private func hasCapacity(_ host: String) -> Bool {
    startingNodes.values.count { $0 == host } < Self.limit
  }

  /// Frees the slots of processes that are no longer starting.
  package mutating func end(where isObsolete: (_ node: String) -> Bool) {
    guard !startingNodes.isEmpty else { return }
    startingNodes = startingNodes.filter { !isObsolete($0.key) }
  }

  /// Assigns queued starts to other hosts.
  package mutating func move(_ next: (QueuedLaunch) -> String?) {
    for index in waiting.indices {
      if let host = next(waiting[index]) { waiting[index].host = host }
    }
  }

  /// Removes and returns the next start that can proceed, or that is no longer wanted.
  /// - Parameter isLost: Whether a host does not answer.
  package mutating func next(
    isLost: (_ host: String) -> Bool = { _ in false }, where isObsolete: (QueuedLaunch) -> Bool
  ) -> QueuedLaunch? {
    let index = waiting.firstIndex { isObsolete($0) || !isLost($0.host) && hasCapacity($0.host) }
    guard let index else { return nil }
    let next = waiting.remove(at: index)
    if !isObsolete(next) { startingNodes[next.node] = next.host }
    return next
  }

  /// Returns how long each start has waited since the last call.
  package mutating func takeWaitTimes(at now: Instant) -> [(node: String, time: Duration)] {
    let times = waiting.map { (node: $0.node, time: now - $0.since) }
    for index in waiting.indices { waiting[index].since = now }
    return times
  }
}
