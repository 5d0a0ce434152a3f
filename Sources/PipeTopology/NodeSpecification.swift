import PipeMachines
import PipeWire

/// One node of a topology: a process and the content that it hosts.
public struct NodeSpecification: Hashable, Sendable {
  /// The content of a node.
  public enum Content: Hashable, Sendable {
    /// A machine, by its registered name.
    case machine(String)
    /// A state that never changes; checked against the states of the machine, if one is named.
    case constant(JSONValue, machine: String? = nil)
  }

  /// The log retention of one node, where it differs from the topology's.
  public struct Logs: Hashable, Sendable {
    /// The size at which a log file is rotated; `nil` uses the topology's. Unit: bytes.
    public var maxSize: Int?
    /// The number of files to keep; `nil` uses the topology's.
    public var maxFiles: Int?

    /// Makes a retention.
    public init(maxSize: Int? = nil, maxFiles: Int? = nil) {
      self.maxSize = maxSize
      self.maxFiles = maxFiles
    }
  }

  /// The permitted numbers of instances in memory.
  static let residentRange = 1...100_000_000
  /// The default number of instances in memory.
  static let residentDefault = 100_000

  /// The name, unique among nodes, composites and monitors: `[A-Za-z0-9][A-Za-z0-9_-]{0,40}`.
  public var name: String
  /// The machine or constant that the node hosts.
  public var content: Content
  /// The executable; `nil` uses the topology's.
  public var program: String?
  /// The JSON object that the machine decodes its parameters from.
  public var parameters: JSONValue
  /// Variables added to the node's environment.
  public var environment: [String: String]
  /// The working directory of the node's process, relative to the topology file's directory; `nil`
  /// uses the orchestrator's.
  public var workingDirectory: String?
  /// The signal and timeout for stopping the node.
  public var stop: StopPolicy
  /// The log retention of the node, where it differs from the topology's.
  public var logs: Logs
  /// When the orchestrator restarts the node.
  public var restart: RestartPolicy
  /// Whether the node's failure takes the topology down. Default: `false`.
  public var required: Bool
  /// The nodes that must meet a condition before this node starts, each listed once.
  public var dependsOn: Set<NodeDependency>
  /// The durability of the node's state; `nil` uses the default, ``Durability/process``.
  public var durability: Durability?
  /// The place where the node runs, by its name in the deployment; `nil` means the orchestrator's
  /// host. Ignored without a deployment.
  public var place: String?
  /// The policy for a possible loss of the node's host; only valid with a place. Default:
  /// ``HostLossPolicy/wait``.
  public var hostLossPolicy: HostLossPolicy
  /// The field of events by which the node has one instance of its machine for each value; `nil`
  /// for a node with one machine.
  public var key: String?
  /// The maximum number of instances in memory, with a key; `nil` uses the default, 100,000.
  public var resident: Int?
  /// The states in which an instance ends, with a key.
  public var final: [String]
  /// How long an instance is kept after it has ended, with a key; `nil` uses the default, 7 days.
  public var keep: Duration?

  /// Makes a node.
  public init(
    name: String, content: Content, program: String? = nil, parameters: JSONValue = [:],
    environment: [String: String] = [:], restart: RestartPolicy = RestartPolicy(),
    required: Bool = false, dependsOn: Set<NodeDependency> = [], durability: Durability? = nil,
    place: String? = nil, hostLossPolicy: HostLossPolicy = .wait, workingDirectory: String? = nil,
    stop: StopPolicy = StopPolicy(), logs: Logs = Logs(), key: String? = nil, resident: Int? = nil,
    final: [String] = [], keep: Duration? = nil
  ) {
    self.final = final
    self.keep = keep
    self.key = key
    self.resident = resident
    self.workingDirectory = workingDirectory
    self.stop = stop
    self.logs = logs
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

  /// Makes a node that hosts a machine.
  public static func machine(
    _ machine: String, name: String, program: String? = nil, parameters: JSONValue = [:],
    environment: [String: String] = [:], restart: RestartPolicy = RestartPolicy(),
    required: Bool = false, dependsOn: Set<NodeDependency> = [], durability: Durability? = nil,
    place: String? = nil, hostLossPolicy: HostLossPolicy = .wait, key: String? = nil,
    resident: Int? = nil, final: [String] = [], keep: Duration? = nil
  ) -> NodeSpecification {
    NodeSpecification(
      name: name, content: .machine(machine), program: program, parameters: parameters,
      environment: environment, restart: restart, required: required, dependsOn: dependsOn,
      durability: durability, place: place, hostLossPolicy: hostLossPolicy, key: key,
      resident: resident, final: final, keep: keep)
  }

  /// Makes a node that stays in one state.
  public static func constant(
    _ state: JSONValue, name: String, machine: String? = nil, program: String? = nil
  ) -> NodeSpecification {
    NodeSpecification(
      name: name, content: .constant(state, machine: machine), program: program)
  }

  /// The host-loss policy as written to a file: `nil` if the node has no place and the default
  /// policy, since the file must not have `on_host_loss` without `place`.
  var writtenHostLossPolicy: HostLossPolicy? {
    get { place == nil && hostLossPolicy == .wait ? nil : hostLossPolicy }
    set { hostLossPolicy = newValue ?? .wait }
  }

  /// The machine's registered name; optional for a constant.
  public internal(set) var machine: String? {
    get {
      switch content {
      case .machine(let machine): machine
      case .constant(_, let machine): machine
      }
    }
    set { content = constant.map { .constant($0, machine: newValue) } ?? .machine(newValue ?? "") }
  }

  /// The state of a constant node, or `nil`.
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
  public var watch: [String]?
  /// The executable; `nil` uses the topology's.
  public var program: String?
  /// The JSON object that the monitor decodes its parameters from.
  public var parameters: JSONValue
  /// Variables added to the monitor's environment.
  public var environment: [String: String]

  /// Makes a monitor.
  public init(
    _ monitor: String, name: String, watch: [String]? = nil, program: String? = nil,
    parameters: JSONValue = [:], environment: [String: String] = [:]
  ) {
    self.parameters = parameters
    self.environment = environment
    self.name = name
    self.monitor = monitor
    self.watch = watch
    self.program = program
  }
}

/// The policy for a node when it is uncertain whether its host is still running.
public enum HostLossPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// The node is not started on another host until its process is certain to have ended.
  case wait
  /// The node's process stops itself after a time; then a new process starts on another host.
  case move
}
