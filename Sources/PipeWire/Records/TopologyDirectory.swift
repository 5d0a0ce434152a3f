import PipeMachines

/// The orchestrator's information about a node of a running topology.
public struct NodeInformation: Codable, Hashable, Sendable {
  /// The kind of a node.
  public enum Kind: String, Codable, Sendable { case machine, constant, monitor, composite }

  /// The node's name.
  public var name: String
  /// The node's kind.
  public var kind: Kind
  /// The registered name of the node's machine or monitor.
  public var hosts: String?
  /// The carrier node of an embedded coordinator; `nil` if the node has its own process.
  public var within: String?
  /// The path of the node's program.
  public var program: String
  /// A hash of the program of the node's current or last process; `nil` if the node is on another
  /// host.
  public var programVersion: String?
  /// The phase of the node's lifecycle: `running`, `backing off`, `failed`, …
  public var phase: String
  /// Whether the node accepts events now.
  public var isRunning: Bool
  /// The reason why the node is not running, or the last change of the node.
  public var reason: String?
  /// The process id, if a process exists.
  public var pid: Int32?
  /// The number of the node's starts, including earlier runs of the topology.
  public var incarnation: UInt64
  /// The number of restarts in this run of the topology.
  public var restarts: UInt64
  /// The time at which the process was started. Unit: nanoseconds since 1970.
  public var startedAt: Int64?
  /// The endpoint for pipes and requests; empty if the node is on another host and has not started yet.
  public var inbox: String
  /// The endpoint of the node's feed; empty if the node is on another host and has not started yet.
  public var feed: String
  /// The public key of the node's sockets; `nil` if all nodes are on one host.
  public var key: String?
  /// The node's `place` in the topology file; `nil` if the file has none for the node.
  public var place: String?
  /// The name of the host on which the node runs; `nil` for the orchestrator's own host.
  public var hostName: String?
  /// The name of the node's process, or of a composite's coordinator; `nil` if all nodes are on one
  /// host.
  public var process: String?
  /// The durability of the node's state.
  public var durability: Durability
  /// The name of the event field whose value selects the instance; `nil` if the node has one
  /// machine.
  public var instanceField: String?
  /// For a process of a node with `shards`: the shard that the process runs. `nil` if the node has
  /// one process.
  public var shard: NodeShard?
  /// The path of the node's journal; `nil` if the node keeps none.
  public var journal: String?
  /// The node's last report about itself.
  public var status: NodeStatus?
  /// The names of the state's fields, in the order of declaration, if the state is a struct.
  public var stateFields: [String]?
  /// The transactions in doubt. The node, or a participant of the composite, is prepared for these
  /// transactions and does not know their outcomes.
  public var doubts: [InDoubtTransaction] = []

  package init(
    name: String, kind: Kind, hosts: String?, program: String, phase: String, isRunning: Bool,
    inbox: String, feed: String, durability: Durability = .volatile, journal: String? = nil
  ) {
    self.durability = durability
    self.journal = journal
    self.name = name
    self.kind = kind
    self.hosts = hosts
    self.program = program
    self.phase = phase
    self.isRunning = isRunning
    self.inbox = inbox
    self.feed = feed
    incarnation = 0
    restarts = 0
  }
}

extension NodeInformation {
  /// A name for the inbox that does not change while the topology runs. The endpoint cannot serve
  /// as this name: on several hosts, each process of a node has a different endpoint.
  package var inboxName: String { process.map { "inbox of \($0)" } ?? inbox }
  /// A name for the feed that does not change while the topology runs.
  package var feedName: String { process.map { "feed of \($0)" } ?? feed }
}

/// The orchestrator's information about a pipe of a running topology.
public struct PipeInformation: Codable, Hashable, Sendable {
  /// The pipe's name.
  public var name: String
  /// The sending node.
  public var from: String
  /// The receiving node.
  public var to: String
  /// The maximum number of events in flight.
  public var capacity: Int

  package init(name: String, from: String, to: String, capacity: Int) {
    self.name = name
    self.from = from
    self.to = to
    self.capacity = capacity
  }
}

/// The orchestrator's information about its running topology.
public struct TopologyDirectory: Codable, Hashable, Sendable {
  /// The topology's name.
  public var topology: String
  /// The path of the topology file.
  public var file: String
  /// The orchestrator's process id.
  public var pid: Int32
  /// The phase of the topology: `starting`, `running`, `stopping`, …
  public var phase: String
  /// Whether all nodes that should run are running.
  public var isRunning: Bool
  /// The nodes, in the order of the file.
  public var nodes: [NodeInformation]
  /// The pipes, in the order of the file.
  public var pipes: [PipeInformation]

  package init(
    topology: String, file: String, pid: Int32, phase: String, isRunning: Bool,
    nodes: [NodeInformation], pipes: [PipeInformation]
  ) {
    self.topology = topology
    self.file = file
    self.pid = pid
    self.phase = phase
    self.isRunning = isRunning
    self.nodes = nodes
    self.pipes = pipes
  }

  /// The node with this name; `nil` if there is none.
  public subscript(node name: String) -> NodeInformation? { nodes.first { $0.name == name } }

  /// Returns the shards of a node, in the order of the directory; an empty list if the node has one
  /// process.
  package func shards(of name: String) -> [NodeInformation] {
    nodes.filter { $0.shard?.node == name }
  }

  /// Returns the processes of a node: the node itself, or its shards. Returns an empty list if there
  /// is no such node.
  package func processes(of name: String) -> [NodeInformation] {
    self[node: name].map { [$0] } ?? shards(of: name)
  }

  /// Returns the process that hosts an instance of a node; `nil` if there is no such node.
  package func host(of key: InstanceKey, in name: String) -> NodeInformation? {
    self[node: name] ?? shards(of: name).first { $0.shard?.owns(key) == true }
  }

  /// The names of nodes that commands accept. The name of a node with shards is followed by the
  /// names of its shards.
  package var names: [String] {
    nodes.flatMap { node in
      node.shard.map { $0.index == 0 ? [$0.node, node.name] : [node.name] } ?? [node.name]
    }
  }

  /// The names of the states' fields, by node. Contains only nodes whose states are structs.
  package var stateFields: [String: [String]] {
    Dictionary(
      nodes.compactMap { node in node.stateFields.map { (node.name, $0) } },
      uniquingKeysWith: { first, _ in first })
  }
}
