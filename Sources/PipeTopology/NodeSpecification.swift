import PipeMachines
import PipeWire

/// A node of a topology: its machine or constant state, and the settings of its process.
public struct NodeSpecification: Hashable, Sendable {
  /// The content of a node.
  public enum Content: Hashable, Sendable {
    /// A machine, by its registered name.
    case machine(String)
    /// A state that never changes. If a machine is named, the state is checked against the
    /// machine's states.
    case constant(JSONValue, machine: String? = nil)
  }

  /// A node's own log limits, which override the topology's limits.
  public struct Logs: Hashable, Sendable {
    /// The size at which a log file is rotated; `nil` uses the topology's size. Unit: bytes.
    public var maxSize: Int?
    /// The number of files to keep; `nil` uses the topology's number.
    public var maxFiles: Int?

    /// Makes limits.
    public init(maxSize: Int? = nil, maxFiles: Int? = nil) {
      self.maxSize = maxSize
      self.maxFiles = maxFiles
    }
  }

  /// The limits of a node's journal that differ from the topology's limits.
  public struct Journal: Hashable, Sendable {
    /// The number of records to keep; `nil` uses the topology's number.
    public var records: Int?
    /// How long a record is kept; `nil` uses the topology's duration.
    public var recordAge: Duration?
    /// The number of dead letters that the journal stores; `nil` uses the topology's number.
    public var deadLetters: Int?

    /// Makes limits.
    public init(records: Int? = nil, recordAge: Duration? = nil, deadLetters: Int? = nil) {
      self.records = records
      self.recordAge = recordAge
      self.deadLetters = deadLetters
    }
  }

  /// The permitted numbers of instances in memory.
  static let residentInstancesRange = 1...100_000_000
  /// The default time for which an instance is kept after it has ended.
  package static let defaultKeepDuration = Duration.seconds(7 * 86_400)
  /// The default number of instances in memory.
  static let defaultResidentCount = 100_000
  /// The permitted numbers of shards.
  static let shardCountRange = 1...InstanceKey.slotCount

  /// The name, unique among nodes, composites and monitors: `[A-Za-z0-9][A-Za-z0-9_-]{0,40}`.
  public var name: String
  /// The machine or constant state of the node.
  public var content: Content
  /// The executable that runs the node; `nil` uses the topology's executable.
  public var program: String?
  /// The machine's parameters, as a JSON object.
  public var parameters: JSONValue
  /// Variables added to the node's environment.
  public var environment: [String: String]
  /// The working directory of the node's process, relative to the topology file's directory; `nil`
  /// uses the orchestrator's working directory.
  public var workingDirectory: String?
  /// The signal and timeout for stopping the node.
  public var stop: StopPolicy
  /// The node's own log limits, which override the topology's limits.
  public var logs: Logs
  /// The limits of the node's journal that differ from the topology's limits.
  public var journal: Journal
  /// The rules by which the orchestrator restarts the node.
  public var restart: RestartPolicy
  /// Whether the topology stops when the node fails. Default: `false`.
  public var required: Bool
  /// The nodes that must meet a condition before this node starts, each listed once.
  public var dependsOn: Set<NodeDependency>
  /// The durability of the node's state; `nil` uses the default, ``Durability/process``.
  public var durability: Durability?
  /// The name of the place in the deployment file where the node runs; `nil` means the
  /// orchestrator's host. Ignored without a deployment file.
  public var place: String?
  /// The policy for a possible loss of the node's host; only valid with a place. Default:
  /// ``HostLossPolicy/wait``.
  public var hostLossPolicy: HostLossPolicy
  /// The name of the event field that contains the key: the node has one instance of its machine
  /// for each value of this field. `nil` for a node with one machine.
  public var key: String?
  /// For a node with a key: the maximum number of instances in memory; `nil` uses the default,
  /// 100,000.
  public var maximumResidentInstances: Int?
  /// For a node with a key: the states in which an instance ends.
  public var finalStates: [String]
  /// For a node with a key: how long an instance is kept after it has ended; `nil` uses the
  /// default, 7 days.
  public var keepDuration: Duration?
  /// For a node with a key: the number of processes among which the instances are divided. Default:
  /// 1.
  public var shards: Int
  /// The names that the node had in former topology files. Its journal and its pipes move from these
  /// names.
  public var was: [String]
  /// The shard that this node represents in ``Topology/withShards``; `nil` for a node of the
  /// topology file.
  package var shard: NodeShard?

  /// Makes a node.
  public init(
    name: String, content: Content, program: String? = nil, parameters: JSONValue = [:],
    environment: [String: String] = [:], restart: RestartPolicy = RestartPolicy(),
    required: Bool = false, dependsOn: Set<NodeDependency> = [], durability: Durability? = nil,
    place: String? = nil, hostLossPolicy: HostLossPolicy = .wait, workingDirectory: String? = nil,
    stop: StopPolicy = StopPolicy(), logs: Logs = Logs(), journal: Journal = Journal(),
    key: String? = nil, maximumResidentInstances: Int? = nil,
    finalStates: [String] = [], keepDuration: Duration? = nil, shards: Int = 1, was: [String] = []
  ) {
    self.was = was
    self.shards = shards
    self.finalStates = finalStates
    self.keepDuration = keepDuration
    self.key = key
    self.maximumResidentInstances = maximumResidentInstances
    self.workingDirectory = workingDirectory
    self.stop = stop
    self.logs = logs
    self.journal = journal
    self.name = name
    self.content = content
    self.program = program
    self.parameters = parameters
    self.environment = environment
    self.restart = restart
    self.required = required
    self.dependsOn = dependsOn
    self.durability = durability
    self.place = place
    self.hostLossPolicy = hostLossPolicy
  }

  /// Makes a node with a machine.
  public static func machine(
    _ machine: String, name: String, program: String? = nil, parameters: JSONValue = [:],
    environment: [String: String] = [:], restart: RestartPolicy = RestartPolicy(),
    required: Bool = false, dependsOn: Set<NodeDependency> = [], durability: Durability? = nil,
    place: String? = nil, hostLossPolicy: HostLossPolicy = .wait, key: String? = nil,
    maximumResidentInstances: Int? = nil, finalStates: [String] = [], keepDuration: Duration? = nil,
    shards: Int = 1
  ) -> NodeSpecification {
    NodeSpecification(
      name: name, content: .machine(machine), program: program, parameters: parameters,
      environment: environment, restart: restart, required: required, dependsOn: dependsOn,
      durability: durability, place: place, hostLossPolicy: hostLossPolicy, key: key,
      maximumResidentInstances: maximumResidentInstances, finalStates: finalStates,
      keepDuration: keepDuration, shards: shards)
  }

  /// Makes a node that stays in one state.
  public static func constant(
    _ state: JSONValue, name: String, machine: String? = nil, program: String? = nil
  ) -> NodeSpecification {
    NodeSpecification(
      name: name, content: .constant(state, machine: machine), program: program)
  }

  /// The number of shards as written to a file; `nil` omits the key. A file cannot have `shards`
  /// without `key`.
  var shardsToWrite: Int? {
    get { key == nil && shards == 1 ? nil : shards }
    set { shards = newValue ?? 1 }
  }

  /// The host-loss policy as written to a file; `nil` omits the key. A file cannot have
  /// `on_host_loss` without `place`, so the default policy is omitted for a node without a place.
  var hostLossPolicyToWrite: HostLossPolicy? {
    get { place == nil && hostLossPolicy == .wait ? nil : hostLossPolicy }
    set { hostLossPolicy = newValue ?? .wait }
  }

  /// The registered name of the machine; `nil` for a constant without a machine.
  public internal(set) var machine: String? {
    get {
      switch content {
      case .machine(let machine): machine
      case .constant(_, let machine): machine
      }
    }
    set { content = constant.map { .constant($0, machine: newValue) } ?? .machine(newValue ?? "") }
  }

  /// The state of a constant node; `nil` for a node with a machine.
  public internal(set) var constant: JSONValue? {
    get { if case .constant(let state, _) = content { state } else { nil } }
    set { content = newValue.map { .constant($0, machine: machine) } ?? .machine(machine ?? "") }
  }
}

/// A monitor that starts with the topology: a read-only process that watches nodes.
public struct MonitorSpecification: Hashable, Sendable {
  /// The name; unique among nodes, composites and monitors.
  public var name: String
  /// The monitor's registered name.
  public var monitor: String
  /// The nodes to watch; `nil` watches all nodes and composites.
  public var watchedNames: [String]?
  /// The executable that runs the monitor; `nil` uses the topology's executable.
  public var program: String?
  /// The monitor's parameters, as a JSON object.
  public var parameters: JSONValue
  /// Variables added to the monitor's environment.
  public var environment: [String: String]

  /// Makes a monitor.
  public init(
    _ monitor: String, name: String, watchedNames: [String]? = nil, program: String? = nil,
    parameters: JSONValue = [:], environment: [String: String] = [:]
  ) {
    self.parameters = parameters
    self.environment = environment
    self.name = name
    self.monitor = monitor
    self.watchedNames = watchedNames
    self.program = program
  }
}

/// The policy for a node whose host may have failed.
public enum HostLossPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// The node is not started again until it is certain that its process has ended.
  case wait
  /// The node's process ends by itself when its lease is over. The node then starts on another host.
  case move
}
