import PipeClient
import PipeMachines
import PipeSystem
import PipeTopology
import PipeWire

/// How each node of a checked topology is started and wired; a pure value.
package struct LaunchPlan {
  /// One process.
  package struct Node {
    package var information: NodeInformation
    var content: NodeArguments.Content
    var environment: [String: String]
    /// The part of its environment that the topology sets.
    var ownEnvironment: [String: String]
    var configuration: NodeConfiguration
    /// `nil` where it keeps none.
    var journal: NodeArguments.Journal?
    /// What its hello must say, where that is known.
    var description: MachineDescription?
    var supervision: TopologyLifecycle.Member
    /// The composites of a coordinator.
    var composites: [CompositePlan] = []
    /// The nodes and composites that a monitor watches because they are all that there are.
    var watched: Set<String> = []

    package var name: String { information.name }
  }

  package let topology: String
  let file: String
  let control: String
  package let nodes: [Node]
  let pipes: [PipeInformation]

  /// The node with this name.
  subscript(name: String) -> Node? { nodes.first { $0.information.name == name } }

  /// The name of the process that a node or a composite has; a name that nobody has is its own.
  package func process(of name: String) -> String {
    nodes.first { $0.composites.contains { $0.name == name } }?.information.name ?? name
  }

  /// The names that commands take: those of composites in place of their processes'.
  package var names: [String] {
    nodes.flatMap { $0.composites.isEmpty ? [$0.information.name] : $0.composites.map(\.name) }
  }

  /// The processes that nodes and composites need to run: their own, those of the composites' nodes, and
  /// all that these depend on.
  package func processes(neededBy names: [String]) -> [String] {
    let composites = nodes.flatMap(\.composites).filter { names.contains($0.name) }
    return nodes.map(\.supervision).dependencies(
      of: names.map(process) + composites.flatMap(\.nodes))
  }

  /// The command line of a node's process.
  func arguments(of node: Node, incarnation: UInt64) -> NodeArguments {
    NodeArguments(
      topology: topology, node: node.information.name, content: node.content, control: control,
      inbox: node.information.inbox, feed: node.information.feed, incarnation: incarnation,
      journal: node.journal)
  }

  /// What tells whether a process is the one that is wanted.
  func launch(of node: Node) -> ProcessRecord.Launch {
    ProcessRecord.Launch(
      program: node.information.program, arguments: arguments(of: node, incarnation: 0).arguments,
      environment: node.ownEnvironment, configuration: node.configuration)
  }

  package init(_ loaded: LoadedTopology, directories: RuntimeDirectories) throws(DirectoryError) {
    let topology = loaded.topology
    self.topology = topology.name
    file = FileSystem.absolute(loaded.file)
    control = try directories.endpoint(.control)
    var inherited = ProcessEnvironment.current
    inherited[TopologyFile.variable] = file
    var inboxes: [String: String] = [:]
    for node in topology.nodes {
      inboxes[node.name] = try directories.endpoint(.inbox(node: node.name))
    }
    for group in loaded.conflictClasses {
      let inbox = try directories.endpoint(.inbox(node: group.name))
      for composite in group.composites { inboxes[composite.name] = inbox }
    }
    let timeouts = topology.timeouts
    var nodes: [Node] = []
    for node in topology.nodes {
      let durability = node.constant == nil ? topology.durability(of: node.name) : .volatile
      let journal =
        durability == .volatile
        ? nil
        : NodeArguments.Journal(
          path: directories.journal(of: node.name), durability: durability)
      let information = NodeInformation(
        name: node.name, kind: node.constant == nil ? .machine : .constant, hosts: node.machine,
        program: topology.program(of: node).flatMap { loaded.programs[$0] } ?? "", phase: "idle",
        isRunning: false, inbox: inboxes[node.name]!,
        feed: try directories.endpoint(.feed(node: node.name)), durability: durability,
        journal: journal?.path)
      let content: NodeArguments.Content =
        switch node.content {
        case .machine(let machine): .machine(machine, parameters: node.parameters)
        case .constant(let state, let machine): .constant(state, machine: machine)
        }
      nodes.append(
        Node(
          information: information, content: content,
          environment: inherited.merging(topology.environment(of: node)) { _, own in own },
          ownEnvironment: topology.environment(of: node),
          configuration: NodeConfiguration(
            outs: topology.pipes.filter { $0.sender == node.name }
              .map { .init($0, endpoint: inboxes[$0.receiver]!, of: topology) },
            ins: topology.pipes.filter { $0.receiver == node.name }
              .map { .init($0, of: topology) },
            participant: .init(node.name, in: loaded.conflictClasses)),
          journal: journal,
          description: node.constant == nil ? loaded.descriptions[node.name] : nil,
          supervision: TopologyLifecycle.Member(
            node.name, isRequired: node.required, dependencies: loaded.dependencies(of: node),
            restart: node.restart, timeouts: timeouts)))
    }
    for group in loaded.conflictClasses {
      nodes.append(
        try Node(group, of: loaded, directories: directories, environment: inherited))
    }
    let all = Set(topology.nodes.map(\.name) + topology.composites.map(\.name))
    for monitor in topology.monitors {
      nodes.append(
        Node(
          information: NodeInformation(
            name: monitor.name, kind: .monitor, hosts: monitor.monitor,
            program: topology.program(of: monitor).flatMap { loaded.programs[$0] } ?? "",
            phase: "idle", isRunning: false,
            inbox: try directories.endpoint(.inbox(node: monitor.name)),
            feed: try directories.endpoint(.feed(node: monitor.name))),
          content: .monitor(monitor.monitor, watch: monitor.watch),
          environment: inherited.merging(topology.environment) { _, own in own },
          ownEnvironment: topology.environment,
          configuration: NodeConfiguration(), journal: nil, description: nil,
          supervision: TopologyLifecycle.Member(
            monitor.name, isObserver: true, timeouts: timeouts),
          watched: monitor.watch == nil ? all : []))
    }
    self.nodes = Self.withReceivers(nodes)
    pipes = topology.pipes.map {
      PipeInformation(name: $0.name, from: $0.sender, to: $0.receiver, capacity: $0.capacity)
    }
  }
}

extension LaunchPlan {
  /// The nodes of whose states others wait for one.
  private var watchedNodes: Set<String> {
    Set(nodes.flatMap(\.supervision.dependencies).filter { $0.state != nil }.map(\.node))
  }

  /// The nodes, each with those that it hands events to.
  private static func withReceivers(_ nodes: [Node]) -> [Node] {
    let names = Dictionary(nodes.map { ($0.information.inbox, $0.information.name) }) { first, _ in
      first
    }
    return nodes.map { node in
      var node = node
      let participants = node.configuration.plan?.components.map(\.inbox) ?? []
      let inboxes = node.configuration.outs.map(\.endpoint) + participants
      node.supervision.receivers = Set(inboxes.compactMap { names[$0] }).sorted()
      return node
    }
  }

  /// Lets every process of the run open as many files as it needs: what this one may, its children may.
  package func raiseOpenFileLimit() throws(OpenFileLimit.Exceeded) {
    try OpenFileLimit.raise(
      to: OpenFileLimit.ofOrchestrator(nodes: nodes.count, watched: watchedNodes.count),
      for: "the orchestrator of \(nodes.count) nodes")
    for node in nodes {
      let participants = node.configuration.plan?.conflictClass.participants.count ?? 0
      try OpenFileLimit.raise(
        to: OpenFileLimit.ofNode(
          outs: node.configuration.outs.count + participants, ins: node.configuration.ins.count),
        for: "node '\(node.information.name)'")
    }
  }
}

extension NodeConfiguration.Out {
  init(_ pipe: PipeSpecification, endpoint: String, of topology: Topology) {
    let rule = pipe.when.flatMap { when in
      pipe.send.map { NodeConfiguration.Rule(when: when, send: $0) }
    }
    self.init(
      name: pipe.name, port: pipe.outPort, rule: rule, endpoint: endpoint,
      capacity: pipe.capacity,
      isDurable: min(pipe.durability ?? .power, topology.durability(of: pipe.sender)) != .volatile)
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
