import PipeSupport
import PipeSystem
import PipeWire

/// Checks a deployment against the current host, and against the topologies that are deployed with
/// it.
package struct DeploymentChecker: DiagnosticCollector {
  let examined: DeploymentFile.Examination
  var source: SourceMap { examined.source }
  var diagnostics: [Diagnostic] = []

  /// Checks a deployment.
  /// - Parameters:
  ///   - topologies: All topologies that use the deployment; `nil` if one of them could not be read.
  ///   - interfaces: The addresses of the current host.
  /// - Returns: Errors and warnings in file order. Does not include the diagnostics that the reader
  ///   has already reported.
  package static func check(
    _ examined: DeploymentFile.Examination, for topologies: [Topology]?,
    interfaces: [InterfaceAddress]
  ) -> [Diagnostic] {
    var checker = DeploymentChecker(examined: examined)
    let deployment = examined.deployment
    if let address = deployment.address {
      checker.check(address, at: ["address"], owner: "the deployment", interfaces)
    }
    for place in deployment.places {
      guard let address = place.address else { continue }
      checker.check(
        address, at: ["places", place.name, "address"], owner: "place '\(place.name)'",
        interfaces)
    }
    if let topologies { checker.checkUse(by: topologies) }
    return checker.diagnostics.inFileOrder
  }

  private init(examined: DeploymentFile.Examination) {
    self.examined = examined
  }

  /// If the engine is `local`, checks that an address belongs to this host: local processes cannot
  /// listen at any other address.
  private mutating func check(
    _ address: String, at path: [String], owner: String, _ interfaces: [InterfaceAddress]
  ) {
    guard examined.deployment.engine == .local, let number = IPv4Address(address),
      !interfaces.contains(where: { $0.owns(number) })
    else { return }
    let own = interfaces.map(\.address.description)
    let remedy =
      own.isEmpty
      ? "no network interface is up: enable the loopback interface"
      : "use one of the addresses of this host: " + own.joined(separator: ", ")
    report(
      .foreignAddress, at: path,
      "\(owner): 'address' \(address) is not an address of this host, and engine 'local' starts "
        + "processes only on this host; \(remedy)")
  }

  private mutating func checkUse(by topologies: [Topology]) {
    let used = Set(topologies.flatMap(\.nodes).compactMap(\.place))
    for place in examined.deployment.places where !used.contains(place.name) {
      report(
        .unusedPlace, .warning, at: source.position(ofKey: ["places", place.name]),
        "place '\(place.name)' is not used by any node; write 'place: \(place.name)' for a node, "
          + "or remove the place"
      )
    }
  }
}

/// Checks that a topology can run with a deployment.
///
/// The deployment must define each place that the topology names. The journals of nodes that may
/// move must be available on the other hosts. Names must be valid in a cluster.
package struct PlacementChecker: DiagnosticCollector {
  let topology: Topology
  let source: SourceMap
  let deployment: DeploymentFile.Examination
  /// The plans of the coordinators, one for each conflict class; empty if the machines have no
  /// descriptions.
  let coordinatorPlans: [ConflictClassPlan]
  var diagnostics: [Diagnostic] = []

  /// Checks a topology.
  /// - Parameter coordinatorPlans: The plans of the coordinators, one for each conflict class.
  /// - Returns: Errors and warnings, in the order of the topology file.
  package static func check(
    _ topology: Topology, source: SourceMap, coordinatorPlans: [ConflictClassPlan] = [],
    in deployment: DeploymentFile.Examination
  ) -> [Diagnostic] {
    var checker = PlacementChecker(
      topology: topology, source: source, deployment: deployment, coordinatorPlans: coordinatorPlans
    )
    for node in topology.nodes {
      checker.checkPlace(of: node)
      if node.hostLossPolicy == .move { checker.checkMove(of: node) }
      if node.shards > 1 { checker.checkShards(of: node) }
    }
    checker.checkNames()
    return checker.diagnostics.inFileOrder
  }

  private mutating func checkPlace(of node: NodeSpecification) {
    guard let place = node.place, !deployment.definesPlace(named: place) else { return }
    let knownNames = deployment.deployment.places.map(\.name)
    report(
      .unknownPlace, at: ["nodes", node.name, "place"],
      "node '\(node.name)': no such place '\(place)' in \(self.locationText(of: ["places"]))"
        + (knownNames.isEmpty ? "; add the place there" : Suggestion.among(knownNames, like: place))
    )
  }

  /// Reports a node with several shards if the engine is Kubernetes: a pod belongs to a single
  /// node.
  private mutating func checkShards(of node: NodeSpecification) {
    guard deployment.deployment.engine == .kubernetes else { return }
    report(
      .badValue, at: ["nodes", node.name, "shards"],
      "node '\(node.name)': 'shards' is not supported with engine 'kubernetes' yet; remove 'shards'"
    )
  }

  // MARK: Nodes that can move to another host

  /// Checks that a node can move to another host, and that its journals are available there.
  private mutating func checkMove(of node: NodeSpecification) {
    guard deployment.deployment.engine != .kubernetes else {
      return report(
        .badHostLoss, at: ["nodes", node.name, "on_host_loss"],
        "node '\(node.name)' cannot move with engine 'kubernetes': the pod of a StatefulSet waits "
          + "until its host is back or an administrator declares the host lost; write "
          + "'on_host_loss: wait'")
    }
    if let place = node.place.flatMap(deployment.deployment.place),
      place.hosts.count == 1, Set(place.spare).isSubset(of: place.hosts)
    {
      report(
        .badHostLoss, at: ["nodes", node.name, "on_host_loss"],
        "node '\(node.name)' has no host to move to: place '\(place.name)' has only host "
          + "'\(place.hosts[0])'; add 'spare: [HOST]' at "
          + "\(self.locationText(of: ["places", place.name])), or write 'on_host_loss: wait'"
      )
    }
    guard node.constant == nil else { return }
    check(
      topology.durability(of: node.name), of: node, recorded: "its journal",
      raise: "its 'durability'")
    guard let embeddedCoordinator = embeddedCoordinator(of: node.name) else { return }
    check(
      embeddedCoordinator.durability, of: node,
      recorded:
        "the journal of composite '\(embeddedCoordinator.name)', whose coordinator is embedded in the "
        + "node,",
      raise: "the 'durability' of the composite's nodes")
  }

  private mutating func check(
    _ level: Durability, of node: NodeSpecification, recorded: String, raise: String
  ) {
    let path = ["nodes", node.name, "on_host_loss"]
    let owner = "node '\(node.name)' cannot move to another host"
    switch level {
    case .volatile: break
    case .process:
      report(
        .badHostLoss, at: path,
        "\(owner): \(recorded) survives a process crash, not the loss of the host; set \(raise) to "
          + "'power' or 'none', or write 'on_host_loss: wait'")
    case .power where !deployment.hasJournalsKey:
      report(
        .badHostLoss, at: path,
        "\(owner): \(recorded) stays on the lost host, since \(locationText(of: [])) has no 'journals'; "
          + "add 'journals: PATH' there, with a directory that all hosts share, or write "
          + "'on_host_loss: wait'")
    case .power: break
    }
  }

  /// Returns the name and durability of the coordinator that is embedded in a node; `nil` if there
  /// is none.
  ///
  /// The coordinator moves to another host together with the node. The name is the name of one of
  /// the coordinator's composites; the durability is the durability of its journal.
  private func embeddedCoordinator(of node: String) -> (name: String, durability: Durability)? {
    if let plan = coordinatorPlans.first(where: { $0.host == node }) {
      return (plan.name, plan.durability)
    }
    let within = topology.composites.filter { $0.within == node }.map(\.name)
    return within.max { topology.durability(of: $0) < topology.durability(of: $1) }
      .map { ($0, topology.durability(of: $0)) }
  }

  // MARK: Names in a cluster

  /// Checks that each process that an agent starts has a unique name in the cluster.
  ///
  /// Equal names are an error. Adding a suffix to one of them would not be safe: when another node
  /// is added later, a process could get the volume claim of another process.
  private mutating func checkNames() {
    guard deployment.deployment.engine == .kubernetes else { return }
    let names = ClusterNames(topology: topology.name)
    guard names.areValidServiceNames else {
      return report(
        .clusterName, at: ["topology"],
        "topology '\(topology.name)' cannot run in a cluster under this name: the names of its "
          + "services start with the topology's name, and a service name must start with a "
          + "letter; rename the topology")
    }
    var knownNames: [String: String] = [:]
    let coordinators = coordinatorPlans.filter { $0.host == nil }.map { ["composites", $0.name] }
    for path in topology.nodes.map({ ["nodes", $0.name] }) + coordinators {
      let name = names.objectName(of: path[1])
      let problem =
        if name == names.orchestrator {
          "'\(path[1])' would be named '\(name)' in a cluster, which is the name of the "
            + "orchestrator"
        } else if let other = knownNames[name] {
          "'\(other)' and '\(path[1])' would both be named '\(name)' in a cluster, where names "
            + "contain only lowercase letters, digits and '-'"
        } else {
          String?.none
        }
      knownNames[name] = path[1]
      if let problem {
        report(.clusterName, at: source.position(ofKey: path), problem + "; rename '\(path[1])'")
      }
    }
  }

  /// Returns a location in the deployment file as text, such as `back.yaml:3:1`.
  private func locationText(of path: [String]) -> String {
    let mark = deployment.source.position(ofKey: path)
    return "\(deployment.source.file):\(mark.line):\(mark.column)"
  }
}
