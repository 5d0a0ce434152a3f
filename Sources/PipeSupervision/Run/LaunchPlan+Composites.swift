import PipeClient
import PipeTopology
import PipeWire

extension LaunchPlan.Node {
  /// The coordinator of a conflict class: one process for all its composites.
  init(
    _ group: ConflictClassPlan, of loaded: LoadedTopology, directories: RuntimeDirectories,
    environment inherited: [String: String]
  ) throws(DirectoryError) {
    let topology = loaded.topology
    let nodes = group.components.compactMap { topology.node($0.node) }
    var components: [CoordinatorPlan.Component] = []
    for node in nodes {
      components.append(
        CoordinatorPlan.Component(
          name: node.name, inbox: try directories.endpoint(.inbox(node: node.name)),
          feed: try directories.endpoint(.feed(node: node.name))))
    }
    journal =
      group.durability == .volatile
      ? nil
      : NodeArguments.Journal(
        path: directories.journal(of: group.name), durability: group.durability)
    composites = group.composites
    information = NodeInformation(
      name: group.name, kind: .composite, hosts: nil,
      program: loaded.programs[group.program] ?? "", phase: "idle", isRunning: false,
      inbox: try directories.endpoint(.inbox(node: group.name)),
      feed: try directories.endpoint(.feed(node: group.name)), durability: group.durability,
      journal: journal?.path)
    content = .composites(group.composites.map(\.name))
    environment = inherited.merging(topology.environment) { _, own in own }
    ownEnvironment = topology.environment
    let pipes = topology.pipes.filter { group[$0.receiver] != nil }
    configuration = NodeConfiguration(
      ins: pipes.map { .init($0, of: topology) },
      plan: CoordinatorPlan(
        group, components: components,
        pipes: Dictionary(pipes.map { ($0.name, $0.receiver) }) { first, _ in first }))
    description = nil
    supervision = TopologyLifecycle.Member(
      group.name, isRequired: nodes.contains(where: \.required),
      restart: RestartPolicy.ofCoordinator(of: nodes.map(\.restart)),
      timeouts: topology.timeouts)
  }
}

extension NodeConfiguration.Participant {
  /// A node's part in the events of its conflict class; `nil` where it has none.
  ///
  /// A node of composites in two classes takes part in one of them only.
  init?(_ node: String, in classes: [ConflictClassPlan]) {
    guard let group = classes.first(where: { $0.participants.contains(node) }) else { return nil }
    self.init(coordinator: group.name, events: group.synchronizedEvents(of: node))
  }
}

extension NodeInformation {
  /// The row of one of a coordinator's composites.
  func row(of composite: CompositePlan) -> NodeInformation {
    var row = self
    row.name = composite.name
    row.hosts = composite.projection
    guard let shown = status?.composites.first(where: { $0.name == composite.name }) else {
      return row
    }
    row.status?.state = shown.state
    row.status?.version = shown.version
    row.status?.composites = [shown]
    return row
  }
}
