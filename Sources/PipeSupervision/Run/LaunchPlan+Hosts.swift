import PipeClient
import PipeTopology
import PipeWire

extension LaunchPlan {
  /// Assigns the nodes to the places and hosts of a deployment. The endpoints of the nodes stay
  /// empty, since the processes report their own endpoints.
  mutating func place(by deployment: Deployment, of topology: Topology) {
    for index in nodes.indices {
      // An embedded coordinator runs on the host of its carrier node.
      let owner = nodes[index].host ?? nodes[index].name
      let place = topology.node(owner)?.place
      nodes[index].information.place = place
      nodes[index].address = place.flatMap(deployment.place)?.address ?? address
      nodes[index].clearEndpoints()
      if keys != nil, topology.isStartedByAgent(owner) {
        nodes[index].supervision.isRemote = true
        nodes[index].hasAgent = true
      }
      guard let host = hosts?.host(of: owner) else { continue }
      nodes[index].supervision.isRemote = true
      assignHost(index, on: host)
      guard hosts?.mayMove(owner) == true else { continue }
      nodes[index].lease = deployment.lease
      if let journals = deployment.journals, nodes[index].information.journal != nil {
        nodes[index].information.journal = RuntimeDirectories.journal(
          of: nodes[index].name, in: journals + "/" + self.topology)
      }
    }
  }

  private mutating func assignHost(_ index: Int, on host: String) {
    nodes[index].hostName = host
    nodes[index].information.hostName = host
    nodes[index].address = job?.addresses[host] ?? address
  }

  /// Sets the address of a node and of its embedded coordinators, when the node's agent has
  /// connected.
  mutating func assignHost(_ name: String, at address: String, on host: String?) {
    for index in nodes.indices where (nodes[index].host ?? nodes[index].name) == name {
      nodes[index].address = address
      nodes[index].information.hostName = host
    }
  }

  /// The lease duration of nodes that may move; `nil` if no node may move.
  var leaseTerm: Duration? { nodes.lazy.compactMap(\.lease).first }

  /// Marks the host of a node as lost, because the host does not answer.
  mutating func markLost(hostOf name: String) {
    if let host = hosts?.host(of: name) { hosts?.markLost(host) }
  }

  /// Marks a host as no longer lost, because it answers.
  mutating func markReachable(_ host: String) { hosts?.markReachable(host) }

  func isLost(_ host: String) -> Bool { hosts?.lostHosts.contains(host) == true }

  /// Whether there is a host on which the next process of a node can start.
  func canStart(_ name: String) -> Bool { hosts?.nextHost(for: name) != nil }

  /// If the host of a node is lost, moves the node's next process, with its embedded coordinators,
  /// to another host.
  /// - Returns: The former and the new host; `nil` if the node does not move.
  mutating func move(_ name: String) -> (from: String, to: String)? {
    guard let former = hosts?.host(of: name), let next = hosts?.nextHost(for: name), next != former
    else { return nil }
    move(name, to: next)
    return (former, next)
  }

  private mutating func move(_ name: String, to host: String) {
    hosts?.move(name, to: host)
    for index in nodes.indices where (nodes[index].host ?? nodes[index].name) == name {
      assignHost(index, on: host)
    }
  }

  /// Assigns nodes to the hosts on which a killed orchestrator last started them, so that their
  /// remaining processes are found.
  package mutating func assignHost(_ records: [ProcessRecord]) {
    for (node, host) in formerHosts(records) where hosts?.mayRun(node, on: host) == true {
      move(node, to: host)
    }
  }

  /// Returns a node that a killed orchestrator has started on a host on which the node must not run
  /// now, and that host. The process may still be running there. Returns `nil` if there is no such
  /// node.
  package func misplacedNode(among records: [ProcessRecord]) -> (node: String, host: String)? {
    formerHosts(records).first {
      hosts?.host(of: $0.node) != nil && hosts?.mayRun($0.node, on: $0.host) != true
    }
  }

  /// Returns the nodes that were started on hosts of this job, with their hosts.
  private func formerHosts(_ records: [ProcessRecord]) -> [(node: String, host: String)] {
    records.compactMap { record in
      record.step.flatMap { $0.job == job?.id ? (record.node, $0.host) : nil }
    }
  }
}

extension Topology {
  /// Whether an agent starts the process of a node in a topology with agents. The orchestrator
  /// starts monitors itself.
  package func isStartedByAgent(_ name: String) -> Bool {
    !monitors.contains { $0.name == name }
  }
}

extension LaunchPlan.Node {
  /// Removes the endpoints of the node and its peers, since the processes report their own
  /// endpoints.
  fileprivate mutating func clearEndpoints() {
    information.process = name
    information.inbox = ""
    information.feed = ""
    for index in configuration.outs.indices { configuration.outs[index].endpoint = "" }
    if var plan = configuration.plan {
      plan.components = plan.components.map { .init(name: $0.name, inbox: "", feed: "") }
      configuration.plan = plan
    }
  }
}
