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
