import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTopology
import PipeWire

/// The plan for starting and connecting each node of a checked topology.
package struct LaunchPlan {
  /// The plan of one process.
  package struct Node {
    package var information: NodeInformation
    var content: NodeArguments.Content
    /// The carrier node of an embedded coordinator; `nil` if the node has a process of its own.
    var host: String? { information.within }
    /// The environment variables that the topology sets for the node.
    var environment: [String: String]
    /// The working directory; `nil` for the directory of the orchestrator.
    var directory: String?
    var configuration = NodeConfiguration()
    /// The description that the node's hello must contain; `nil` if it is unknown.
    var description: MachineDescription?
    var supervision: TopologyLifecycle.Member
    /// The retention of the node's log.
    var logRetention: LogRetention
    /// The limits of the node's journal.
    var journalRetention = JournalRetention()
    /// The composites of a coordinator.
    var composites: [CompositePlan] = []
    /// For a monitor that watches all nodes and composites: their names. Empty for all other nodes.
    var watchedNames: Set<String> = []
    /// The address on which the node and its embedded coordinators listen; `nil` if all nodes are
    /// on one host.
    var address: String?
    /// The host of the Slurm job on which the node runs; `nil` if the node does not run in a Slurm
    /// job.
    var hostName: String?
    /// How long the process may run without the orchestrator; `nil` if the node may not move to
    /// other hosts.
    var lease: Duration?
    /// The settings of a node with a `key`; `nil` if the node has one machine.
    var instances: NodeArguments.Instances?
    /// Whether an agent starts the process of the node, or of its carrier node.
    var hasAgent = false

    /// Whether the node runs on a different host than the orchestrator.
    var isRemote: Bool { supervision.isRemote }

    package var name: String { information.name }
  }

  package let topology: String
  let topologyFile: String
  let controlEndpoint: String
  package internal(set) var nodes: [Node]
  let pipes: [PipeInformation]
  /// The names that the file changes, including the names of the pipes for step reports.
  package let nameChanges: NameChanges
  /// The retention of logs that belong to no node.
  package let logs: LogRetention
  /// The placement of the processes; `nil` if all processes run on one host.
  let deployment: Deployment?
  /// The absolute path of the deployment file.
  let deploymentFile: String?
  /// The Slurm job on whose hosts the processes run; `nil` if the orchestrator starts processes on
  /// its own host.
  let job: SlurmJob?
  /// The assignment of the nodes to the hosts of the job; `nil` if the orchestrator starts
  /// processes on its own host.
  var hosts: HostAssignment?
  /// The keys of a topology whose processes are started by agents; `nil` if there are no agents.
  let keys: AgentKeys?
  /// The address on which the orchestrator listens for processes on other hosts.
  let address: String
  /// The directory in which the nodes record their steps; `nil` if the run is not recorded.
  private(set) var run: String?
  /// Whether the nodes are gated: they take only the steps that a client requests.
  private(set) var isGated = false
  /// The paths of the programs that can try to read journals before their nodes start.
  let programsReadingJournals: Set<String>
  /// The environment that all processes inherit.
  private let inheritedEnvironment: [String: String]

  /// - Parameters:
  ///   - job: The job on whose hosts the processes run, for the Slurm engine.
  ///   - place: The address and the keys of the orchestrator, for the engine with agents.
  /// - Throws: ``DirectoryError``, or ``SlurmError`` if the orchestrator's address is unknown.
  package init(
    _ loaded: LoadedTopology, directories: RuntimeDirectories, job: SlurmJob? = nil,
    at place: (address: String, keys: AgentKeys)? = nil
  ) throws {
    let fileTopology = loaded.topology
    let loaded = loaded.topologyWithShards
    let topology = loaded.topology
    self.topology = topology.name
    deployment = loaded.deployment
    deploymentFile = loaded.deploymentFile
    self.job = job
    keys = place?.keys
    address = try place?.address ?? Self.ownAddress(loaded.deployment, job)
    programsReadingJournals = Set(
      loaded.programs.filter { loaded.programDescriptions[$0.key]?.readsJournals == true }
        .map(\.value))
    logs = topology.logs
    topologyFile = FileSystem.absolutePath(loaded.file)
    controlEndpoint = try directories.endpoint(.control)
    inheritedEnvironment = ProcessEnvironment.current.merging([TopologyFile.variable: topologyFile])
    {
      _, own in own
    }
    var nodes: [Node] = []
    for node in topology.nodes { nodes.append(try Node(node, of: loaded, in: directories)) }
    for group in loaded.conflictClasses {
      nodes.append(try Node(group, of: loaded, in: directories))
    }
    for monitor in topology.monitors {
      nodes.append(try Node(monitor, of: loaded, in: directories))
    }
    self.nodes = Self.withReceivers(nodes)
    nameChanges = fileTopology.nameChanges.addingStepReports(of: nodes)
    pipes = loaded.pipes.map {
      PipeInformation(name: $0.name, from: $0.sender, to: $0.receiver, capacity: $0.capacity)
    }
    guard let deployment else { return }
    if job != nil { hosts = HostAssignment(topology, by: deployment) }
    self.place(by: deployment, of: topology)
  }

  /// Lets each node record its steps.
  /// - Parameter run: The absolute path of the directory of the run.
  package mutating func record(in run: String) {
    self.run = run
    for index in nodes.indices { nodes[index].configuration.run = run }
  }

  /// Lets the nodes take only the steps that a client requests. All nodes start together, because no
  /// node takes a step by itself that another node could wait for. A node that ends is restarted at
  /// once, because a topology without running nodes would end.
  package mutating func gate() {
    isGated = true
    for index in nodes.indices {
      nodes[index].configuration.isGated = true
      nodes[index].supervision.dependencies = []
      nodes[index].supervision.isRequired = false
      nodes[index].supervision.restart = RestartPolicy(
        .onFailure, maximumRestarts: 100,
        backoff: Backoff(initial: .milliseconds(5), max: .seconds(1)))
    }
  }

  /// Returns the plan of another topology for the same run.
  /// - Throws: The errors of the initializer.
  package func replanned(
    for loaded: LoadedTopology, directories: RuntimeDirectories
  ) throws -> LaunchPlan {
    var next = try LaunchPlan(
      loaded, directories: directories, job: job, at: keys.map { (address, $0) })
    if let run { next.record(in: run) }
    if isGated { next.gate() }
    return next
  }

  /// Returns the node with this name.
  subscript(name: String) -> Node? { nodes.first { $0.name == name } }

  /// The endpoint on which the orchestrator listens for processes on other hosts.
  var controlBinding: DeployedNodes.ControlBinding {
    keys == nil
      ? .init(address: address) : .init(address: "*", port: deployment?.port, keys: keys)
  }

  /// Returns the carrier node of an embedded coordinator.
  func host(of name: String) -> String? { self[name]?.host }

  /// Returns the name of the process of a node or a composite. Returns an unknown name unchanged.
  package func process(of name: String) -> String {
    nodes.first { $0.composites.contains { $0.name == name } }?.name ?? name
  }

  /// Returns the names of the processes of nodes and composites, without duplicates. A node with
  /// shards has a process for each shard.
  package func processes(of names: [String]) -> [String] {
    var seen: Set<String> = []
    return names.flatMap(shards).map(process).filter { seen.insert($0).inserted }
  }

  /// Returns the names of a node's shards; the name itself if the node has one shard.
  private func shards(of name: String) -> [String] {
    let shards = nodes.filter { $0.information.shard?.node == name }.map(\.name)
    return shards.isEmpty ? [name] : shards
  }

  /// The names that commands accept: the names of composites replace the names of their processes.
  package var commandNames: [String] {
    nodes.flatMap { node in
      if !node.composites.isEmpty { return node.composites.map(\.name) }
      guard let shard = node.information.shard, shard.index == 0 else { return [node.name] }
      return [shard.node, node.name]
    }
  }

  /// Whether there is a node, a shard of a node or a pipe of this name.
  func hasNodeOrPipe(_ name: String) -> Bool {
    commandNames.contains(name) || self[name] != nil || pipes.contains { $0.name == name }
  }

  /// For each node with a `key`: the number of its shards.
  var shardCounts: [String: Int] {
    Dictionary(
      nodes.compactMap { node in
        node.instances.map { ($0.shard?.node ?? node.name, $0.shard?.count ?? 1) }
      },
      uniquingKeysWith: { first, _ in first })
  }

  /// Returns the processes that nodes and composites require: their own processes, the components
  /// of the composites, and all dependencies of these processes.
  package func processes(requiredBy names: [String]) -> [String] {
    let composites = nodes.flatMap(\.composites).filter { names.contains($0.name) }
    return nodes.map(\.supervision).dependencies(
      of: processes(of: names) + composites.flatMap(\.nodes)
        + composites.compactMap { host(of: process(of: $0.name)) })
  }

  /// Returns the arguments of a node's process.
  /// - Parameter credentials: The keys and the orchestrator's endpoint, for a process that accepts
  ///   connections from other hosts.
  func arguments(of node: Node, incarnation: UInt64, credentials: NodeCredentials? = nil)
    -> NodeArguments
  {
    let information = node.information
    // The system chooses the port at the moment when the node binds its socket. So no other process
    // can bind this port first.
    let bound = node.address.map { "tcp://\($0):*" }
    return NodeArguments(
      topology: topology, node: node.name, content: node.content,
      control: credentials?.controlEndpoint ?? controlEndpoint, inbox: bound ?? information.inbox,
      feed: bound ?? information.feed, incarnation: incarnation,
      journal: information.journal.map {
        .init(path: $0, durability: information.durability, retention: node.journalRetention)
      },
      keys: credentials.map { node.isRemote ? $0.keys.inlineKeys : $0.keys }, lease: node.lease,
      instances: node.instances)
  }

  func environment(of node: Node) -> [String: String] {
    inheritedEnvironment.merging(node.environment) { _, own in own }
  }

  /// Returns the path of a node's journal, which may still have a former name of the node; `nil` if
  /// there is no journal.
  func recordedJournal(of node: Node) -> String? {
    guard let path = node.information.journal else { return nil }
    let directory = FileSystem.parentDirectory(of: path)
    let former = nameChanges.formerNames(of: node.name).map {
      RuntimeDirectories.journal(of: $0, in: directory)
    }
    return ([path] + former).first(where: FileSystem.exists)
  }

  /// Returns a journal that the process of a node writes: its own journal, or the journal of an
  /// embedded coordinator.
  func journalOfProcess(_ name: String) -> String? {
    nodes.lazy.filter { ($0.host ?? $0.name) == name }.compactMap(\.information.journal).first
  }

  /// Returns the variables that are added to the environment of a node's agent.
  func agentEnvironment(of node: Node) -> [String: String] {
    node.environment.merging([TopologyFile.variable: topologyFile]) { own, _ in own }
  }

  /// Returns the launch parameters. A process that runs with other parameters must be replaced.
  func launch(of node: Node) -> ProcessRecord.Launch {
    ProcessRecord.Launch(
      program: node.information.program, arguments: arguments(of: node, incarnation: 0).arguments,
      environment: node.environment, configuration: node.configuration, directory: node.directory,
      host: node.host)
  }
}

extension LaunchPlan {
  /// The nodes whose states other nodes wait for.
  private var watchedNodes: Set<String> {
    Set(nodes.flatMap(\.supervision.dependencies).filter { $0.state != nil }.map(\.node))
  }

  /// Returns the nodes, with the receivers of their events filled in.
  private static func withReceivers(_ nodes: [Node]) -> [Node] {
    let names = Set(nodes.map(\.name))
    return nodes.map { node in
      var node = node
      let participants = node.configuration.plan?.components.map(\.name) ?? []
      // Step reports do not count: the coordinator receives the step reports of its participants,
      // but stops before the participants.
      let outs = node.configuration.outs.filter { $0.steps == nil }
      let receivers = outs.map(\.receiver) + participants
      node.supervision.receivers = names.intersection(receivers).sorted()
      return node
    }
  }

  private static func ownAddress(_ deployment: Deployment?, _ job: SlurmJob?) throws -> String {
    if let address = deployment?.address { return address }
    guard let job else { return Deployment.defaultAddress }
    guard let own = job.ownAddress() else { throw SlurmError.noAddress(job: job.id) }
    return own
  }

  /// Raises the limit on open files to the number that the orchestrator and its child processes
  /// require. Child processes inherit the limit.
  package func raiseOpenFileLimit() throws(OpenFileLimit.ExceededError) {
    try OpenFileLimit.raise(
      to: OpenFileLimit.ofOrchestrator(
        nodeCount: nodes.count, watchedNodeCount: watchedNodes.count),
      for: "the orchestrator of \(nodes.count) nodes")
    for node in nodes {
      guard node.host == nil else { continue }
      let nodesInProcess = [node] + nodes.filter { $0.host == node.name }
      let needed = nodesInProcess.map(\.requiredFileCount).reduce(0, +)
      try OpenFileLimit.raise(to: needed, for: "node '\(node.name)'")
    }
  }
}

extension LaunchPlan.Node {
  fileprivate var requiredFileCount: Int {
    let participants = configuration.plan?.conflictClass.participants.count ?? 0
    return OpenFileLimit.ofNode(
      outboundConnectionCount: configuration.outs.count + participants,
      inboundPipeCount: configuration.ins.count)
  }
}

extension LaunchPlan {
  /// Returns the reason why another plan cannot replace this plan now; `nil` if there is none. A
  /// composite must not get another coordinator while its present coordinator has events to send or
  /// to receive, since these events would be lost.
  /// - Parameter waiting: Returns the number of unacknowledged events of a node's pipe.
  func coordinatorBlocker(
    to next: LaunchPlan, waiting: (_ node: Node, _ pipe: String) -> UInt64
  ) -> String? {
    for coordinator in nodes {
      for composite in coordinator.composites {
        let name = next.nameChanges.members[composite.name] ?? composite.name
        let process = next.process(of: name)
        // A renamed coordinator keeps its journal.
        guard next.nameChanges.members[coordinator.name] != process else { continue }
        let left = pipesLosingEvents(of: composite, at: coordinator, movingTo: next[process])
        guard let (sender, pipe) = left.first(where: { waiting($0.sender, $0.pipe) > 0 }) else {
          continue
        }
        return "the coordinator of composite '\(composite.name)' would change from "
          + "'\(coordinator.name)' to '\(process)', and the pending events of pipe '\(pipe)' "
          + "(\(waiting(sender, pipe))) would be lost; apply the file when 'orchestrator describe "
          + "\(sender.name)' shows no pending events, or list '\(coordinator.name)' before "
          + "'\(process)' in the file"
      }
    }
    return nil
  }

  /// Returns the pipes that would lose events if a composite got another coordinator: the outgoing
  /// pipes of the composite that are also in the next plan, and the pipes for the step reports of
  /// its components.
  private func pipesLosingEvents(
    of composite: CompositePlan, at coordinator: Node, movingTo next: Node?
  ) -> [(sender: Node, pipe: String)] {
    guard let next, next.name != coordinator.name else { return [] }
    let kept = next.configuration.outs.filter { $0.rule?.composite == composite.name }.map(\.name)
    guard !kept.isEmpty else { return [] }
    let own = coordinator.configuration.outs.map(\.name).filter(kept.contains)
    let reportPipes = composite.nodes.compactMap { self[$0] }.flatMap { node in
      node.configuration.outs.filter { $0.steps != nil && $0.receiver == coordinator.name }
        .map { (sender: node, pipe: $0.name) }
    }
    return own.map { (sender: coordinator, pipe: $0) } + reportPipes
  }
}
