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
    /// The node in whose process it lives; `nil` where it has one of its own.
    var host: String? { information.within }
    /// The part of its environment that the topology sets.
    var environment: [String: String]
    /// The directory in which it runs; `nil` for the orchestrator's.
    var directory: String?
    var configuration = NodeConfiguration()
    /// What its hello must say, where that is known.
    var description: MachineDescription?
    var supervision: TopologyLifecycle.Member
    /// How much is kept of its log.
    var logs: LogRetention
    /// The composites of a coordinator.
    var composites: [CompositePlan] = []
    /// The nodes and composites that a monitor watches because they are all that there are.
    var watched: Set<String> = []
    /// Where it listens, and its lodgers do; `nil` where it is on one host with all others.
    var address: String?
    /// The host of an engine's on which it runs; `nil` where that is the orchestrator's own.
    var hostName: String?
    /// How long its process may go on without the orchestrator; `nil` where it does not move.
    var lease: Duration?
    /// Whether an agent starts its process, or that in which it lives.
    var hasAgent = false

    /// Whether it runs on another host than the orchestrator.
    var isRemote: Bool { supervision.isRemote }

    package var name: String { information.name }
  }

  package let topology: String
  let file: String
  let control: String
  package internal(set) var nodes: [Node]
  let pipes: [PipeInformation]
  /// How much is kept of logs that are no node's.
  package let logs: LogRetention
  /// Where the processes are to run; `nil` where all are on one host, and their places say nothing.
  let deployment: Deployment?
  /// The absolute path of its file.
  let deploymentFile: String?
  /// The job on whose hosts they are started; `nil` where the orchestrator starts them on its own.
  let job: SlurmJob?
  /// On which of them each node is; `nil` where the orchestrator starts them on its own host.
  var hosts: HostAssignment?
  /// The keys of a topology whose processes agents start; `nil` where none does.
  let keys: AgentKeys?
  /// Where the orchestrator listens for processes that are bound for other hosts.
  let address: String
  /// What every process has in its environment.
  private let inherited: [String: String]

  /// - Parameters:
  ///   - job: The job on whose hosts its processes are started, with the engine that does so.
  ///   - place: Where the orchestrator listens, and by which keys, with the engine whose processes agents start.
  /// - Throws: ``DirectoryError``, or ``SlurmError`` where the orchestrator's address cannot be told.
  package init(
    _ loaded: LoadedTopology, directories: RuntimeDirectories, job: SlurmJob? = nil,
    at place: (address: String, keys: AgentKeys)? = nil
  ) throws {
    let topology = loaded.topology
    self.topology = topology.name
    deployment = loaded.deployment
    deploymentFile = loaded.deploymentFile
    self.job = job
    keys = place?.keys
    address = try place?.address ?? Self.ownAddress(loaded.deployment, job)
    logs = topology.logs
    file = FileSystem.absolute(loaded.file)
    control = try directories.endpoint(.control)
    inherited = ProcessEnvironment.current.merging([TopologyFile.variable: file]) { _, own in own }
    var nodes: [Node] = []
    for node in topology.nodes { nodes.append(try Node(node, of: loaded, in: directories)) }
    for group in loaded.conflictClasses {
      nodes.append(try Node(group, of: loaded, in: directories))
    }
    for monitor in topology.monitors {
      nodes.append(try Node(monitor, of: loaded, in: directories))
    }
    self.nodes = Self.withReceivers(nodes)
    pipes = loaded.pipes.map {
      PipeInformation(name: $0.name, from: $0.sender, to: $0.receiver, capacity: $0.capacity)
    }
    guard let deployment else { return }
    if job != nil { hosts = HostAssignment(topology, by: deployment) }
    self.place(by: deployment, of: topology)
  }

  /// The node with this name.
  subscript(name: String) -> Node? { nodes.first { $0.name == name } }

  /// Where the orchestrator listens for processes that are bound for other hosts.
  var controlPlace: DeployedNodes.Place {
    keys == nil
      ? .init(address: address) : .init(address: "*", port: deployment?.port, keys: keys)
  }

  /// The node in whose process a node lives.
  func host(of name: String) -> String? { self[name]?.host }

  /// The name of the process that a node or a composite has; a name that nobody has is its own.
  package func process(of name: String) -> String {
    nodes.first { $0.composites.contains { $0.name == name } }?.name ?? name
  }

  /// The same of several, each process once.
  func processes(of names: [String]) -> [String] {
    var seen: Set<String> = []
    return names.map(process).filter { seen.insert($0).inserted }
  }

  /// The names that commands take: those of composites in place of their processes'.
  package var names: [String] {
    nodes.flatMap { $0.composites.isEmpty ? [$0.name] : $0.composites.map(\.name) }
  }

  /// The processes that nodes and composites need to run: their own, those of the composites' nodes, and
  /// all that these depend on.
  package func processes(neededBy names: [String]) -> [String] {
    let composites = nodes.flatMap(\.composites).filter { names.contains($0.name) }
    return nodes.map(\.supervision).dependencies(
      of: names.map(process) + composites.flatMap(\.nodes)
        + composites.compactMap { host(of: process(of: $0.name)) })
  }

  /// The command line of a node's process.
  /// - Parameter entry: Of one that is bound for other hosts: its keys, and where the orchestrator is.
  func arguments(of node: Node, incarnation: UInt64, _ entry: NodeEntry? = nil) -> NodeArguments {
    let information = node.information
    // The system chooses the port, so that nobody takes it in between.
    let bound = node.address.map { "tcp://\($0):*" }
    return NodeArguments(
      topology: topology, node: node.name, content: node.content,
      control: entry?.control ?? control, inbox: bound ?? information.inbox,
      feed: bound ?? information.feed, incarnation: incarnation,
      journal: information.journal.map { .init(path: $0, durability: information.durability) },
      keys: entry.map { node.isRemote ? $0.keys.handed : $0.keys }, lease: node.lease)
  }

  func environment(of node: Node) -> [String: String] {
    inherited.merging(node.environment) { _, own in own }
  }

  /// A journal of a process: its node's own, or one of those that live in it.
  func journalOfProcess(_ name: String) -> String? {
    nodes.lazy.filter { ($0.host ?? $0.name) == name }.compactMap(\.information.journal).first
  }

  /// What is added to the environment of an agent's.
  func ownEnvironment(of node: Node) -> [String: String] {
    node.environment.merging([TopologyFile.variable: file]) { own, _ in own }
  }

  /// What tells whether a process is the one that is wanted.
  func launch(of node: Node) -> ProcessRecord.Launch {
    ProcessRecord.Launch(
      program: node.information.program, arguments: arguments(of: node, incarnation: 0).arguments,
      environment: node.environment, configuration: node.configuration, directory: node.directory,
      host: node.host)
  }
}

extension LaunchPlan {
  /// The nodes of whose states others wait for one.
  private var watchedNodes: Set<String> {
    Set(nodes.flatMap(\.supervision.dependencies).filter { $0.state != nil }.map(\.node))
  }

  /// The nodes, each with those that it hands events to.
  private static func withReceivers(_ nodes: [Node]) -> [Node] {
    let names = Set(nodes.map(\.name))
    return nodes.map { node in
      var node = node
      let participants = node.configuration.plan?.components.map(\.name) ?? []
      // A coordinator is a receiver of its participants' steps as well, and ends before them.
      let outs = node.configuration.outs.filter { $0.steps == nil }
      let receivers = outs.map(\.receiver) + participants
      node.supervision.receivers = names.intersection(receivers).sorted()
      return node
    }
  }

  private static func ownAddress(_ deployment: Deployment?, _ job: SlurmJob?) throws -> String {
    if let address = deployment?.address { return address }
    guard let job else { return Deployment.standardAddress }
    guard let own = job.ownAddress() else { throw SlurmError.noAddress(job: job.id) }
    return own
  }

  /// Lets every process of the run open as many files as it needs: what this one may, its children may.
  package func raiseOpenFileLimit() throws(OpenFileLimit.Exceeded) {
    try OpenFileLimit.raise(
      to: OpenFileLimit.ofOrchestrator(nodes: nodes.count, watched: watchedNodes.count),
      for: "the orchestrator of \(nodes.count) nodes")
    for node in nodes {
      guard node.host == nil else { continue }
      let inhabitants = [node] + nodes.filter { $0.host == node.name }
      let needed = inhabitants.map(\.neededFiles).reduce(0, +)
      try OpenFileLimit.raise(to: needed, for: "node '\(node.name)'")
    }
  }
}

extension LaunchPlan.Node {
  fileprivate var neededFiles: Int {
    let participants = configuration.plan?.conflictClass.participants.count ?? 0
    return OpenFileLimit.ofNode(
      outs: configuration.outs.count + participants, ins: configuration.ins.count)
  }
}

extension LaunchPlan {
  /// Why another plan cannot follow this one now: a composite would have another process, which would not
  /// have what the present one is still to send, or to be told; `nil` where nothing is.
  /// - Parameter waiting: How many events of a node's pipe are not acknowledged.
  func coordinatorObstacle(
    to next: LaunchPlan, waiting: (_ node: Node, _ pipe: String) -> UInt64
  ) -> String? {
    for coordinator in nodes {
      for composite in coordinator.composites {
        let process = next.process(of: composite.name)
        let left = pipes(of: composite, at: coordinator, movingTo: next[process])
        guard let (sender, pipe) = left.first(where: { waiting($0.sender, $0.pipe) > 0 }) else {
          continue
        }
        return "composite '\(composite.name)' would be coordinated by process '\(process)', and "
          + "not by '\(coordinator.name)' any more, and \(waiting(sender, pipe)) events of pipe '\(pipe)' are "
          + "not taken yet: they would be lost. Apply the file when they are, which 'orchestrator "
          + "describe \(sender.name)' tells, or list '\(coordinator.name)' before '\(process)' in it"
      }
    }
    return nil
  }

  /// The pipes that would be cut off if another process coordinated a composite: those that lead from it
  /// and still are to, and those by which its nodes tell their steps.
  private func pipes(
    of composite: CompositePlan, at coordinator: Node, movingTo next: Node?
  ) -> [(sender: Node, pipe: String)] {
    guard let next, next.name != coordinator.name else { return [] }
    let kept = next.configuration.outs.filter { $0.rule?.composite == composite.name }.map(\.name)
    guard !kept.isEmpty else { return [] }
    let own = coordinator.configuration.outs.map(\.name).filter(kept.contains)
    let told = composite.nodes.compactMap { self[$0] }.flatMap { node in
      node.configuration.outs.filter { $0.steps != nil && $0.receiver == coordinator.name }
        .map { (sender: node, pipe: $0.name) }
    }
    return own.map { (sender: coordinator, pipe: $0) } + told
  }
}
