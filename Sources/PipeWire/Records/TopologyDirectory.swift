import PipeMachines

/// One node of a running topology, as its orchestrator knows it.
public struct NodeInformation: Codable, Hashable, Sendable {
  /// What a node hosts.
  public enum Kind: String, Codable, Sendable { case machine, constant, monitor, composite }

  /// The node's name.
  public var name: String
  /// What it hosts.
  public var kind: Kind
  /// The machine or monitor it hosts, by its registered name.
  public var hosts: String?
  /// The node in whose process it lives; `nil` where it has one of its own.
  public var within: String?
  /// The path of its program.
  public var program: String
  /// Where it is in its life: `running`, `backing off`, `failed`, …
  public var phase: String
  /// Whether it takes events now.
  public var isRunning: Bool
  /// Why it is not running, or what happened last.
  public var reason: String?
  /// The process id, where a process exists.
  public var pid: Int32?
  /// The count of its starts, former runs included.
  public var incarnation: UInt64
  /// The count of its starts after the first of this run.
  public var restarts: UInt64
  /// When its process was started. Unit: nanoseconds since 1970.
  public var startedAt: Int64?
  /// Where it takes pipes and requests; empty where it is bound for other hosts and not there yet.
  public var inbox: String
  /// Where it publishes its states; empty where it is bound for other hosts and not there yet.
  public var feed: String
  /// The public key of its sockets; `nil` where it is on one host with all others.
  public var key: String?
  /// The place that the topology file names for it; `nil` where that says nothing.
  public var place: String?
  /// The host of an engine's on which it runs; `nil` where that is the orchestrator's own.
  public var hostName: String?
  /// The name of its process where that is bound for other hosts, of a composite its coordinator's; `nil`
  /// where it is on one host with all others.
  public var process: String?
  /// What its state survives.
  public var durability: Durability
  /// The path of its journal; `nil` where it keeps none.
  public var journal: String?
  /// What it last told of itself.
  public var status: NodeStatus?
  /// The names of its state's fields where that is a struct, as declared.
  public var stateFields: [String]?
  /// The transactions that its participants, or itself, are prepared for and not told the end of.
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
  /// What its inbox is known by for as long as the topology runs: off one host each process of it has another
  /// endpoint, and composites that share a process have one.
  package var inboxName: String { process.map { "inbox of \($0)" } ?? inbox }
  /// The same of its feed.
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
  /// Events that may be under way.
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
  /// The file it was read from.
  public var file: String
  /// The orchestrator's process id.
  public var pid: Int32
  /// `starting`, `running`, `stopping`, …
  public var phase: String
  /// Whether every node that should run does.
  public var isRunning: Bool
  /// Its nodes, in the order of the file.
  public var nodes: [NodeInformation]
  /// Its pipes, in the order of the file.
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

  /// By node, the names of its state's fields where that is a struct.
  package var stateFields: [String: [String]] {
    Dictionary(
      nodes.compactMap { node in node.stateFields.map { (node.name, $0) } },
      uniquingKeysWith: { first, _ in first })
  }
}
