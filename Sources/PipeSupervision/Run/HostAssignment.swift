import PipeTopology

/// On which host of an engine's each node runs: those of a place are dealt to its hosts in turn.
struct HostAssignment {
  private var hosts: [String: String] = [:]

  init(_ topology: Topology, by deployment: Deployment) {
    var dealt: [String: Int] = [:]
    for node in topology.nodes {
      guard let place = node.place.flatMap(deployment.place), !place.hosts.isEmpty else { continue }
      hosts[node.name] = place.hosts[dealt[place.name, default: 0] % place.hosts.count]
      dealt[place.name, default: 0] += 1
    }
  }

  func host(of node: String) -> String? { hosts[node] }
}
