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
  /// Where it takes pipes and requests.
  public var inbox: String
  /// Where it publishes its states.
  public var feed: String
  /// What its state survives.
  public var durability: Durability
  /// The path of its journal; `nil` where it keeps none.
  public var journal: String?
  /// What it last told of itself.
  public var status: NodeStatus?
  /// The names of its state's fields where that is a struct, as declared.
  public var stateFields: [String]?
  /// Promises of its participants, or of itself, of which they are not told the end.
  public var doubts: [Doubt] = []

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

/// What a client asks of an orchestrator: the body of `command`.
package enum ControlCommand: Codable, Hashable, Sendable {
  /// The directory; with what the nodes tell now where `fresh`.
  case directory(fresh: Bool)
  case describe(node: String)
  /// The composites, by the processes that coordinate them.
  case composites
  case start(nodes: [String])
  case stop(nodes: [String])
  case restart(nodes: [String])
  case kill(node: String, signal: Int32)
  /// Start nodes, and where wanted all that they depend on; answer when they run, or at once.
  case bringUp(nodes: [String], withDependencies: Bool, waits: Bool)
  /// Stop nodes and all that depend on them, in order.
  case bringDown(nodes: [String])
  /// Read and check a file, and tell what it changes.
  case plan(ChangeRequest)
  /// Go over to the file that was planned under this number.
  case apply(plan: UInt64)
  /// Stop in order.
  case down
  /// Kill everything.
  case forceDown
  /// How the run has ended, once it has.
  case outcome
}

/// Which file a topology that runs is to go over to.
package struct ChangeRequest: Codable, Hashable, Sendable {
  /// The file's absolute path.
  package var file: String
  /// What `${NAME}` in the file stands for.
  package var variables: [String: String]
  /// Whether the topology keeps its name, whatever the file's is.
  package var keepsName: Bool
  /// Whether it is to be told only, and not kept to be applied.
  package var isDryRun: Bool

  package init(
    file: String, variables: [String: String], keepsName: Bool, isDryRun: Bool
  ) {
    self.file = file
    self.variables = variables
    self.keepsName = keepsName
    self.isDryRun = isDryRun
  }
}

/// What a file would change, and what it is applied by.
package struct PlannedChange: Codable, Hashable, Sendable {
  package var number: UInt64
  package var change: TopologyChange
  package var warnings: [Diagnostic]

  package init(number: UInt64, change: TopologyChange, warnings: [Diagnostic]) {
    self.number = number
    self.change = change
    self.warnings = warnings
  }
}

/// What an orchestrator answers: the body of `answer`.
package enum ControlAnswer: Codable, Hashable, Sendable {
  case done
  case directory(TopologyDirectory)
  case description(MachineDescription)
  case composites([ConflictClassPlan])
  /// Done, with these nodes.
  case steered(nodes: [String])
  case planned(PlannedChange)
  /// What is wrong with a file.
  case invalid([Diagnostic])
  case ended(TopologyLifecycle.Outcome)
  case failed(String)
}
