import PipeClient
import PipeSystem
import PipeTopology
import PipeWire

extension LaunchPlan.Node {
  /// Plans a node with a machine or a constant state.
  init(
    _ node: NodeSpecification, of loaded: LoadedTopology, in directories: RuntimeDirectories
  ) throws(DirectoryError) {
    let topology = loaded.topology
    let isConstant = node.constant != nil
    information = try NodeInformation(
      node.name, isConstant ? .constant : .machine, hosts: node.machine,
      program: topology.program(of: node),
      durability: isConstant ? .volatile : topology.durability(of: node.name), of: loaded,
      in: directories)
    content =
      switch node.content {
      case .machine(let machine): .machine(machine, parameters: node.parameters)
      case .constant(let state, let machine): .constant(state, machine: machine)
      }
    information.instanceField = node.key
    information.shard = node.shard
    instances = node.key.map {
      .init(
        key: $0, maximumInMemory: node.maximumResidentInstances, finalStates: node.finalStates,
        retention: node.keepDuration, shard: node.shard)
    }
    logRetention = topology.logs(of: node)
    journalRetention = topology.journal(of: node)
    environment = topology.environment(of: node)
    directory = node.workingDirectory.map {
      FileSystem.absolutePath(
        FileSystem.absolutePath($0, from: FileSystem.parentDirectory(of: loaded.file)))
    }
    var outs: [NodeConfiguration.Out] = []
    for pipe in loaded.pipes where pipe.sender == node.name {
      let receiver = loaded.process(of: pipe.receiver)
      let inbox = try directories.endpoint(.inbox(node: receiver))
      outs.append(.init(pipe, to: receiver, at: inbox, of: loaded))
    }
    for group in loaded.conflictClasses
    where group.reportingNodes(in: topology).contains(node.name) {
      let inbox = try directories.endpoint(.inbox(node: group.name))
      outs.append(.init(stepsOf: node.name, for: group, endpoint: inbox, in: loaded))
    }
    configuration = NodeConfiguration(
      outs: outs,
      ins: loaded.pipes.filter { $0.receiver == node.name }.map { .init($0, of: topology) },
      participant: .init(node.name, in: loaded.conflictClasses))
    description = isConstant ? nil : loaded.descriptions[node.name]
    supervision = TopologyLifecycle.Member(
      node.name, isRequired: node.required, dependencies: loaded.dependencies(of: node),
      restart: node.restart, timeouts: topology.timeouts(of: node),
      stopSignal: node.stop.signal.signal)
  }

  /// Plans the coordinator of a conflict class: one process for all its composites.
  init(
    _ group: ConflictClassPlan, of loaded: LoadedTopology, in directories: RuntimeDirectories
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
    composites = group.composites
    information = try NodeInformation(
      group.name, .composite, program: group.program, durability: group.durability, of: loaded,
      in: directories)
    information.within = group.host
    content = .composites(group.composites.map(\.name))
    logRetention = topology.logs
    journalRetention = topology.journal
    environment = topology.environment
    let pipes = loaded.pipes.filter { group[$0.receiver] != nil }
    var outs: [NodeConfiguration.Out] = []
    for pipe in loaded.pipes where group[pipe.sender] != nil {
      let receiver = loaded.process(of: pipe.receiver)
      let inbox = try directories.endpoint(.inbox(node: receiver))
      outs.append(.init(pipe, to: receiver, at: inbox, of: loaded))
    }
    let reportPipes = group.reportingNodes(in: topology).map { (group.pipe(ofStepsOf: $0), $0) }
    configuration = NodeConfiguration(
      outs: outs,
      ins: pipes.map { .init($0, of: topology) }
        + reportPipes.map { name, _ in
          .init(
            name: name, capacity: ConflictClassPlan.stepCapacity, onRefused: .record,
            isDurable: group.durability != .volatile)
        },
      plan: CoordinatorPlan(
        group, components: components,
        compositesByPipe: Dictionary(pipes.map { ($0.name, $0.receiver) }) { first, _ in first },
        reportingNodesByPipe: reportPipes.isEmpty
          ? nil : Dictionary(reportPipes) { first, _ in first }))
    supervision = TopologyLifecycle.Member(
      group.name, isRequired: nodes.contains(where: \.required), carrier: group.host,
      restart: RestartPolicy.forCoordinator(of: nodes.map(\.restart)),
      timeouts: topology.timeouts)
  }

  init(
    _ monitor: MonitorSpecification, of loaded: LoadedTopology, in directories: RuntimeDirectories
  ) throws(DirectoryError) {
    let topology = loaded.topology
    information = try NodeInformation(
      monitor.name, .monitor, hosts: monitor.monitor, program: topology.program(of: monitor),
      of: loaded, in: directories)
    content = .monitor(
      monitor.monitor, watch: monitor.watchedNames, parameters: monitor.parameters)
    logRetention = topology.logs
    environment = topology.environment.merging(monitor.environment) { _, own in own }
    supervision = TopologyLifecycle.Member(
      monitor.name, isObserver: true, timeouts: topology.timeouts)
    if monitor.watchedNames == nil {
      watchedNames = Set(topology.nodes.map(\.name) + topology.composites.map(\.name))
    }
  }
}

extension LoadedTopology {
  /// Returns the process that receives the events sent to a node or a composite.
  func process(of receiver: String) -> String {
    conflictClasses.first { $0[receiver] != nil }?.name ?? receiver
  }
}

extension ConflictClassPlan {
  /// The maximum number of step reports that are in flight from a node to its coordinator.
  fileprivate static let stepCapacity = 1024

  /// Returns the components of all composites that have outgoing pipes. The components are sorted
  /// by name.
  fileprivate func reportingNodes(in topology: Topology) -> [String] {
    let senders = Set(topology.pipes.map(\.sender))
    return Set(composites.filter { senders.contains($0.name) }.flatMap(\.nodes)).sorted()
  }

  /// Returns the name of the pipe for the step reports of a node. The name contains spaces, so it
  /// differs from the names of all pipes in the topology file.
  fileprivate func pipe(ofStepsOf node: String) -> String { Self.pipe(ofStepsOf: node, to: name) }

  fileprivate static func pipe(ofStepsOf node: String, to coordinator: String) -> String {
    "steps of \(node) to \(coordinator)"
  }
}

extension NameChanges {
  /// Returns the changes, with the pipes on which the nodes report their steps to coordinators.
  func addingStepReports(of nodes: [LaunchPlan.Node]) -> NameChanges {
    var changes = self
    guard !members.isEmpty else { return changes }
    for node in nodes {
      for out in node.configuration.outs where out.steps != nil {
        for sender in [node.name] + formerNames(of: node.name) {
          for receiver in [out.receiver] + formerNames(of: out.receiver) {
            let former = ConflictClassPlan.pipe(ofStepsOf: sender, to: receiver)
            guard former != out.name else { continue }
            changes.pipes[former] = .init(out.name, from: node.name, to: out.receiver)
          }
        }
      }
    }
    return changes
  }
}

extension NodeConfiguration.Out {
  /// Creates the pipe on which a node reports its steps to a coordinator. The coordinator needs
  /// these reports for the outgoing pipes of its composites.
  fileprivate init(
    stepsOf node: String, for group: ConflictClassPlan, endpoint: String, in loaded: LoadedTopology
  ) {
    let own = NodeConfiguration.Participant(node, in: loaded.conflictClasses)?.coordinator
    self.init(
      name: group.pipe(ofStepsOf: node), steps: own == group.name ? .transactions : .states,
      receiver: group.name, endpoint: endpoint, capacity: ConflictClassPlan.stepCapacity,
      isDurable: loaded.topology.durability(of: node) != .volatile)
  }

  /// Creates a pipe that the topology file declares.
  /// - Parameter receiver: The process that receives the events.
  init(
    _ pipe: PipeSpecification, to receiver: String, at endpoint: String, of loaded: LoadedTopology
  ) {
    let topology = loaded.topology
    let composite = topology.composite(pipe.sender)?.name
    let rule = pipe.eventTemplate.map {
      NodeConfiguration.Rule(
        when: pipe.enteredState, send: $0, composite: composite, states: pipe.enteredStatesByNode)
    }
    self.init(
      name: pipe.name, port: pipe.outPort, rule: rule, receiver: receiver, endpoint: endpoint,
      capacity: pipe.capacity,
      isDurable: min(pipe.durability ?? .power, topology.durability(of: pipe.sender)) != .volatile,
      route: pipe.route, schema: loaded.schema(of: pipe))
  }
}

extension NodeConfiguration.In {
  init(_ pipe: PipeSpecification, of topology: Topology) {
    self.init(
      name: pipe.name, capacity: pipe.capacity, onRefused: pipe.onRefused,
      isDurable: min(pipe.durability ?? .power, topology.durability(of: pipe.receiver))
        != .volatile)
  }
}

extension NodeConfiguration.Participant {
  /// Describes the synchronized events in which a node takes part, and their coordinator; `nil` if
  /// the node takes part in none.
  ///
  /// A node may belong to composites of two classes, but is a participant in only one class.
  init?(_ node: String, in classes: [ConflictClassPlan]) {
    guard let group = classes.first(where: { $0.participants.contains(node) }) else { return nil }
    self.init(coordinator: group.name, events: group.synchronizedEvents(of: node))
  }
}

extension NodeInformation {
  /// Describes a process that is not started yet.
  fileprivate init(
    _ name: String, _ kind: Kind, hosts: String? = nil, program: String?,
    durability: Durability = .volatile, of loaded: LoadedTopology,
    in directories: RuntimeDirectories
  ) throws(DirectoryError) {
    self.init(
      name: name, kind: kind, hosts: hosts, program: program.flatMap { loaded.programs[$0] } ?? "",
      phase: "idle", isRunning: false, inbox: try directories.endpoint(.inbox(node: name)),
      feed: try directories.endpoint(.feed(node: name)), durability: durability,
      journal: durability == .volatile ? nil : directories.journal(of: name))
  }

  /// Returns the row of a coordinator's composite in the topology directory.
  func row(of composite: CompositePlan) -> NodeInformation {
    var row = self
    row.name = composite.name
    row.hosts = composite.projection
    row.instanceField = composite.key
    guard let shown = status?.composites.first(where: { $0.name == composite.name }) else {
      return row
    }
    row.status?.state = shown.state
    row.status?.version = shown.version
    row.status?.composites = [shown]
    return row
  }
}
