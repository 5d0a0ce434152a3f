import PipeSupport
import PipeSystem
import PipeWire

/// Checks a deployment against the machine that it is read on, and the topologies that are to run by it.
package struct DeploymentChecker: Examiner {
  let examined: DeploymentFile.Examined
  var source: SourceMap { examined.source }
  var diagnostics: [Diagnostic] = []

  /// Checks a deployment.
  /// - Parameters:
  ///   - topologies: All that are to run by it; `nil` where one of them could not be read.
  ///   - interfaces: The addresses of this machine.
  /// - Returns: Errors and warnings in the order of the file, but for those of its reading.
  package static func check(
    _ examined: DeploymentFile.Examined, for topologies: [Topology]?,
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

  private init(examined: DeploymentFile.Examined) {
    self.examined = examined
  }

  /// The engine `local` starts processes on this machine, which can listen at its own addresses alone.
  private mutating func check(
    _ address: String, at path: [String], owner: String, _ interfaces: [InterfaceAddress]
  ) {
    guard examined.deployment.engine == .local, let number = IPv4Address(address),
      !interfaces.contains(where: { $0.owns(number) })
    else { return }
    let own = interfaces.map(\.address.description)
    let remedy =
      own.isEmpty
      ? "it has none that is up: see that there is a loopback interface"
      : "write one that it has: " + own.joined(separator: ", ")
    report(
      .foreignAddress, at: path,
      "\(owner): 'address' \(address) is not this machine's, and engine 'local' starts processes on "
        + "this machine alone; \(remedy)")
  }

  private mutating func checkUse(by topologies: [Topology]) {
    let used = Set(topologies.flatMap(\.nodes).compactMap(\.place))
    for place in examined.deployment.places where !used.contains(place.name) {
      report(
        .unusedPlace, .warning, at: source.mark(ofKey: ["places", place.name]),
        "place '\(place.name)': no node runs there; give a node 'place: \(place.name)', or remove it"
      )
    }
  }
}

/// Checks that a topology can run by a deployment: that it has each place, what `move` asks for, and names that
/// a cluster takes.
package struct PlacementChecker: Examiner {
  let topology: Topology
  let source: SourceMap
  let deployment: DeploymentFile.Examined
  /// The composites by what coordinates them; none where the programs were not asked.
  let classes: [ConflictClassPlan]
  var diagnostics: [Diagnostic] = []

  /// Checks a topology.
  /// - Parameter classes: Its composites, in classes of which each has one coordinator.
  /// - Returns: Errors and warnings in the order of the topology's file.
  package static func check(
    _ topology: Topology, source: SourceMap, classes: [ConflictClassPlan] = [],
    in deployment: DeploymentFile.Examined
  ) -> [Diagnostic] {
    var checker = PlacementChecker(
      topology: topology, source: source, deployment: deployment, classes: classes)
    for node in topology.nodes {
      checker.checkPlace(of: node)
      if node.hostLossPolicy == .move { checker.checkMove(of: node) }
    }
    checker.checkNames()
    return checker.diagnostics.inFileOrder
  }

  private mutating func checkPlace(of node: NodeSpecification) {
    guard let place = node.place, !deployment.names(place) else { return }
    let known = deployment.deployment.places.map(\.name)
    report(
      .unknownPlace, at: ["nodes", node.name, "place"],
      "node '\(node.name)': place '\(place)' is not in \(self.place(of: ["places"]))"
        + (known.isEmpty ? "; add it there" : Suggestion.among(known, like: place)))
  }

  // MARK: Moving

  /// What a node has recorded has to be where it goes on, whole.
  private mutating func checkMove(of node: NodeSpecification) {
    guard deployment.deployment.engine != .kubernetes else {
      return report(
        .badHostLoss, at: ["nodes", node.name, "on_host_loss"],
        "node '\(node.name)' cannot move with engine 'kubernetes': the pod of a StatefulSet waits for its host until "
          + "that is back, or somebody says that it will not be; write 'on_host_loss: wait'")
    }
    if let place = node.place.flatMap(deployment.deployment.place),
      place.hosts.count == 1, Set(place.spare).isSubset(of: place.hosts)
    {
      report(
        .badHostLoss, at: ["nodes", node.name, "on_host_loss"],
        "node '\(node.name)' has nowhere to move: place '\(place.name)' has host '\(place.hosts[0])' alone; add "
          + "'spare: [HOST]' at \(self.place(of: ["places", place.name])), or write 'on_host_loss: wait'"
      )
    }
    guard node.constant == nil else { return }
    check(
      topology.durability(of: node.name), of: node, recorded: "what it has recorded",
      raise: "its 'durability'")
    guard let lodger = lodger(of: node.name) else { return }
    check(
      lodger.durability, of: node,
      recorded: "what composite '\(lodger.name)', which is coordinated within it, has recorded",
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
        "\(owner): \(recorded) survives the end of processes, not that of their host; make "
          + "\(raise) 'power', or 'none', or write 'on_host_loss: wait'")
    case .power where !deployment.saysJournals:
      report(
        .badHostLoss, at: path,
        "\(owner): \(recorded) stays on the one that is lost, since \(place(of: [])) has no "
          + "'journals'; add 'journals: PATH' there, a directory that all hosts see, or write "
          + "'on_host_loss: wait'")
    case .power: break
    }
  }

  /// The coordinator within a node, which moves with it: its first composite, and what it records.
  private func lodger(of node: String) -> (name: String, durability: Durability)? {
    if let plan = classes.first(where: { $0.host == node }) { return (plan.name, plan.durability) }
    let within = topology.composites.filter { $0.within == node }.map(\.name)
    return within.max { topology.durability(of: $0) < topology.durability(of: $1) }
      .map { ($0, topology.durability(of: $0)) }
  }

  // MARK: Names in a cluster

  /// What agents start has a name in the cluster, which no other has. A suffix for the second of two would change whose
  /// volume claim is whose when a node is added: so they are refused.
  private mutating func checkNames() {
    guard deployment.deployment.engine == .kubernetes else { return }
    let names = ClusterNames(topology: topology.name)
    guard names.areOfServices else {
      return report(
        .clusterName, at: ["topology"],
        "topology '\(topology.name)' cannot be in a cluster under this name: its services begin with it, and the name "
          + "of a service begins with a letter; name it otherwise")
    }
    var known: [String: String] = [:]
    let coordinators = classes.filter { $0.host == nil }.map { ["composites", $0.name] }
    for path in topology.nodes.map({ ["nodes", $0.name] }) + coordinators {
      let name = names.object(of: path[1])
      let problem =
        if name == names.orchestrator {
          "'\(path[1])' would be '\(name)' in a cluster, which is the orchestrator's name there"
        } else if let other = known[name] {
          "'\(other)' and '\(path[1])' would both be '\(name)' in a cluster, where names have small letters, digits and "
            + "'-' alone"
        } else {
          String?.none
        }
      known[name] = path[1]
      if let problem {
        report(.clusterName, at: source.mark(ofKey: path), problem + "; rename it")
      }
    }
  }

  /// `back.yaml:3:1`: a place in the deployment file.
  private func place(of path: [String]) -> String {
    let mark = deployment.source.mark(ofKey: path)
    return "\(deployment.source.file):\(mark.line):\(mark.column)"
  }
}
