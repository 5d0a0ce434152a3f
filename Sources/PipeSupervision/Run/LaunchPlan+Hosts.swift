import PipeClient
import PipeTopology
import PipeWire

extension LaunchPlan {
  /// The nodes as they are bound for other hosts: where each is, its own process tells.
  mutating func place(by deployment: Deployment, of topology: Topology) {
    for index in nodes.indices {
      // A lodger is where its host is.
      let owner = nodes[index].host ?? nodes[index].name
      let place = topology.node(owner)?.place
      nodes[index].information.place = place
      nodes[index].address = place.flatMap(deployment.place)?.address ?? address
      nodes[index].bindForOthers()
      if keys != nil, topology.isStartedByAgent(owner) {
        nodes[index].supervision.isRemote = true
        nodes[index].hasAgent = true
      }
      guard let host = hosts?.host(of: owner) else { continue }
      nodes[index].supervision.isRemote = true
      settle(index, on: host)
      guard hosts?.mayMove(owner) == true else { continue }
      nodes[index].lease = deployment.lease
      if let journals = deployment.journals, nodes[index].information.journal != nil {
        nodes[index].information.journal = RuntimeDirectories.journal(
          of: nodes[index].name, in: journals + "/" + self.topology)
      }
    }
  }

  private mutating func settle(_ index: Int, on host: String) {
    nodes[index].hostName = host
    nodes[index].information.hostName = host
    nodes[index].address = job?.addresses[host] ?? address
  }

  /// The agent of a node is there, so that it is known where its process is to listen, and what lives in it.
  mutating func settle(_ name: String, at address: String, on host: String?) {
    for index in nodes.indices where (nodes[index].host ?? nodes[index].name) == name {
      nodes[index].address = address
      nodes[index].information.hostName = host
    }
  }

  /// The lease that nodes have which may move; `nil` where none may.
  var leaseTerm: Duration? { nodes.lazy.compactMap(\.lease).first }

  /// The host of a node does not answer.
  mutating func lose(hostOf name: String) {
    if let host = hosts?.host(of: name) { hosts?.lose(host) }
  }

  /// A host answers.
  mutating func find(_ host: String) { hosts?.find(host) }

  func isLost(_ host: String) -> Bool { hosts?.lost.contains(host) == true }

  /// Whether the next process of a node has a host to start on.
  func canStart(_ name: String) -> Bool { hosts?.next(for: name) != nil }

  /// Has the next process of a node start elsewhere where its host is lost, and those that live in it with it.
  /// - Returns: From where to where; `nil` where it stays.
  mutating func move(_ name: String) -> (from: String, to: String)? {
    guard let former = hosts?.host(of: name), let next = hosts?.next(for: name), next != former
    else { return nil }
    move(name, to: next)
    return (former, next)
  }

  private mutating func move(_ name: String, to host: String) {
    hosts?.move(name, to: host)
    for index in nodes.indices where (nodes[index].host ?? nodes[index].name) == name {
      settle(index, on: host)
    }
  }

  /// Plans nodes for where an orchestrator that was killed had started them last, so that what is left of them there is
  /// found.
  package mutating func settle(_ records: [ProcessRecord]) {
    for (node, host) in former(records) where hosts?.mayRun(node, on: host) == true {
      move(node, to: host)
    }
  }

  /// A node that an orchestrator which was killed had started where it does not belong now: whether its process goes on
  /// there cannot be told.
  package func stray(among records: [ProcessRecord]) -> (node: String, host: String)? {
    former(records).first {
      hosts?.host(of: $0.node) != nil && hosts?.mayRun($0.node, on: $0.host) != true
    }
  }

  /// Where in this job nodes were started.
  private func former(_ records: [ProcessRecord]) -> [(node: String, host: String)] {
    records.compactMap { record in
      record.step.flatMap { $0.job == job?.id ? (record.node, $0.host) : nil }
    }
  }
}

extension Topology {
  /// Whether the process of a node is started by an agent, where agents start processes. Monitors are the
  /// orchestrator's own.
  package func isStartedByAgent(_ name: String) -> Bool {
    !monitors.contains { $0.name == name }
  }
}

extension LaunchPlan.Node {
  /// Where it and its peers are, their processes tell.
  fileprivate mutating func bindForOthers() {
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
