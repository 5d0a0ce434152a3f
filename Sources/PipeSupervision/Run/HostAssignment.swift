import PipeTopology

/// The assignment of nodes to hosts. A topology file assigns a node to a place, and the deployment
/// file lists the hosts of each place. The nodes of a place are distributed over the hosts of the
/// place in round-robin order. If a host is lost, its nodes with the policy `move` get other hosts.
package struct HostAssignment {
  private var hostByNode: [String: String] = [:]
  /// For each node that may move to another host: the hosts to which the node may move, spare hosts
  /// first.
  private var moveTargets: [String: [String]] = [:]
  /// For each node: the hosts of its place.
  private var placementHosts: [String: [String]] = [:]
  /// The hosts that do not answer. The processes on these hosts may still be running.
  package private(set) var lostHosts: Set<String> = []

  package init(_ topology: Topology, by deployment: Deployment) {
    var assignedCounts: [String: Int] = [:]
    for node in topology.nodes {
      guard let place = node.place.flatMap(deployment.place), !place.hosts.isEmpty else { continue }
      hostByNode[node.name] =
        place.hosts[assignedCounts[place.name, default: 0] % place.hosts.count]
      assignedCounts[place.name, default: 0] += 1
      placementHosts[node.name] = place.hosts
      if node.hostLossPolicy == .move { moveTargets[node.name] = place.spare + place.hosts }
    }
  }

  package func host(of node: String) -> String? { hostByNode[node] }

  package func mayMove(_ node: String) -> Bool { moveTargets[node] != nil }

  /// Returns whether a process of a node may run on a host. The host must belong to the node's
  /// place, or the node must be allowed to move to the host.
  package func mayRun(_ node: String, on host: String) -> Bool {
    placementHosts[node]?.contains(host) == true || moveTargets[node]?.contains(host) == true
  }

  /// Marks a host as lost, because it does not answer.
  package mutating func markLost(_ host: String) { lostHosts.insert(host) }

  /// Marks a host as no longer lost, because the host or one of its processes answers.
  package mutating func markReachable(_ host: String) { lostHosts.remove(host) }

  /// Returns the host on which the next process of a node can start. If the node's present host is
  /// not lost, returns this host; otherwise, returns the host with the fewest nodes among the other
  /// hosts to which the node may move. Returns `nil` if all these hosts are lost.
  package func nextHost(for node: String) -> String? {
    guard let present = hostByNode[node] else { return nil }
    guard lostHosts.contains(present) else { return present }
    var nodeCounts: [String: Int] = [:]
    for host in hostByNode.values { nodeCounts[host, default: 0] += 1 }
    // If several hosts have the smallest number of nodes, the first of these hosts is selected.
    return moveTargets[node, default: []].filter { !lostHosts.contains($0) }
      .min { nodeCounts[$0, default: 0] < nodeCounts[$1, default: 0] }
  }

  /// Assigns a node's next process to a host.
  package mutating func move(_ node: String, to host: String) { hostByNode[node] = host }
}

/// The queue of processes that must start on other hosts. On each host, a limited number of
/// processes start at the same time. The time in the queue does not count towards a process's start
/// timeout.
///
/// Without the limit, a host's daemon would have to start very many processes at once, and would
/// not answer in time.
package struct LaunchQueue: Sendable {
  package typealias Instant = SuspendingClock.Instant

  /// A start in the queue.
  package struct QueuedLaunch: Hashable, Sendable {
    package let node: String
    package let incarnation: Int
    package fileprivate(set) var host: String
    /// The instant up to which ``LaunchQueue/takeWaitTimes(at:)`` has already returned the waiting
    /// time.
    var since: Instant
  }

  /// The maximum number of processes that start on one host at the same time.
  package static let maximumStartsPerHost = 8

  /// For each node whose process is starting: the host of the process.
  private var startingNodes: [String: String] = [:]
  private var queuedLaunches: [QueuedLaunch] = []

  package init() {}

  /// Requests the start of a process.
  /// - Parameter isLost: Whether the host does not answer. If so, the start must wait for the host.
  /// - Returns: Whether the process can start now. If not, the start is queued.
  package mutating func begin(
    _ node: String, incarnation: Int, on host: String, isLost: Bool = false, at now: Instant
  ) -> Bool {
    if !isLost, hasCapacity(host), !queuedLaunches.contains(where: { $0.host == host }) {
      startingNodes[node] = host
      return true
    }
    queuedLaunches.append(
      QueuedLaunch(node: node, incarnation: incarnation, host: host, since: now))
    return false
  }

  private func hasCapacity(_ host: String) -> Bool {
    startingNodes.values.count { $0 == host } < Self.maximumStartsPerHost
  }

  /// Frees the capacity that hosts have reserved for processes that are no longer starting.
  /// - Parameter isObsolete: Returns whether the process of a node is no longer starting.
  package mutating func freeCapacity(where isObsolete: (_ node: String) -> Bool) {
    guard !startingNodes.isEmpty else { return }
    startingNodes = startingNodes.filter { !isObsolete($0.key) }
  }

  /// Assigns queued starts to other hosts.
  /// - Parameter next: Returns the new host of a queued start; `nil` if the start keeps its host.
  package mutating func move(_ next: (QueuedLaunch) -> String?) {
    for index in queuedLaunches.indices {
      if let host = next(queuedLaunches[index]) { queuedLaunches[index].host = host }
    }
  }

  /// Removes and returns the next queued start that can proceed or that is obsolete. Returns `nil`
  /// if there is none.
  /// - Parameters:
  ///   - isLost: Returns whether a host does not answer.
  ///   - isObsolete: Returns whether a start is no longer wanted.
  package mutating func next(
    isLost: (_ host: String) -> Bool = { _ in false }, where isObsolete: (QueuedLaunch) -> Bool
  ) -> QueuedLaunch? {
    let index = queuedLaunches.firstIndex {
      isObsolete($0) || !isLost($0.host) && hasCapacity($0.host)
    }
    guard let index else { return nil }
    let next = queuedLaunches.remove(at: index)
    if !isObsolete(next) { startingNodes[next.node] = next.host }
    return next
  }

  /// Returns, for each queued start, how long the start has waited since the last call.
  package mutating func takeWaitTimes(at now: Instant) -> [(node: String, time: Duration)] {
    let times = queuedLaunches.map { (node: $0.node, time: now - $0.since) }
    for index in queuedLaunches.indices { queuedLaunches[index].since = now }
    return times
  }
}
