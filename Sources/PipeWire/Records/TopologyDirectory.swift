import PipeMachines

/// One node of a running topology, as its orchestrator knows it.
public struct NodeInformation: Codable, Hashable, Sendable {
  /// The kind of content that a node hosts.
  public enum Kind: String, Codable, Sendable { case machine, constant, monitor, composite }

  /// The node's name.
  public var name: String
  /// The kind of content that the node hosts.
  public var kind: Kind
  /// The registered name of the machine or monitor that the node hosts.
  public var hosts: String?
  /// The carrier node of an embedded coordinator; `nil` if the node has its own process.
  public var within: String?
  /// The path of the node's program.
  public var program: String
  /// The phase of the node's lifecycle: `running`, `backing off`, `failed`, …
  public var phase: String
  /// Whether the node takes events now.
  public var isRunning: Bool
  /// Why the node is not running, or what happened to it last.
  public var reason: String?
  /// The process id, if a process exists.
  public var pid: Int32?
  /// The number of the node's starts, including former runs.
  public var incarnation: UInt64
  /// The number of the node's starts after the first of this run.
  public var restarts: UInt64
  /// When the process was started. Unit: nanoseconds since 1970.
  public var startedAt: Int64?
  /// The endpoint for pipes and requests; empty if the node is bound for other hosts and not there yet.
  public var inbox: String
  /// The endpoint of the node's states; empty if the node is bound for other hosts and not there yet.
  public var feed: String
  /// The public key of the node's sockets; `nil` if all nodes are on one host.
  public var key: String?
  /// The place that the topology file names for the node; `nil` if the file names none.
  public var place: String?
  /// The engine's host on which the node runs; `nil` if it is the orchestrator's own host.
  public var hostName: String?
  /// The name of the node's process, or of a composite's coordinator, if it is bound for other
  /// hosts; `nil` if all nodes are on one host.
  public var process: String?
  /// The durability of the state.
  public var durability: Durability
  /// The field of events by which the node has instances; `nil` if it has one machine.
  public var instanceField: String?
  /// The path of the node's journal; `nil` if it keeps none.
  public var journal: String?
  /// The node's last report about itself.
  public var status: NodeStatus?
  /// The names of the state's fields, as declared, if the state is a struct.
  public var stateFields: [String]?
  /// The transactions in doubt: the node, or a participant of the composite, is prepared and does
  /// not know the outcome.
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
  /// The name of the inbox, which stays the same for as long as the topology runs. Across hosts,
  /// each process of a node has another endpoint, and composites that share a process share the endpoint.
  package var inboxName: String { process.map { "inbox of \($0)" } ?? inbox }
  /// The name of the feed, which stays the same as well.
  package var feedName: String { process.map { "feed of \($0)" } ?? feed }
}

/// One pipe of a running topology.
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

/// A running topology, as its orchestrator knows it.
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

  /// The node with the name, or `nil`.
  public subscript(node name: String) -> NodeInformation? { nodes.first { $0.name == name } }

  /// The names of the state's fields, by node, for states that are structs.
  package var stateFields: [String: [String]] {
    Dictionary(
      nodes.compactMap { node in node.stateFields.map { (node.name, $0) } },
      uniquingKeysWith: { first, _ in first })
  }
}
