import PipeMachines
import PipeWire

/// One node of a topology: a process, and what it hosts.
public struct NodeSpecification: Hashable, Sendable {
  /// What a node hosts.
  public enum Content: Hashable, Sendable {
    /// A machine, by its registered name.
    case machine(String)
    /// A state that never changes; checked against a machine's states where one is named.
    case constant(JSONValue, machine: String? = nil)
  }

  /// How much is kept of a node's log, where it differs from the topology.
  public struct Logs: Hashable, Sendable {
    /// The size at which a file is put aside; `nil` for the topology's. Unit: bytes.
    public var maxSize: Int?
    /// The files that are kept; `nil` for the topology's.
    public var maxFiles: Int?

    /// Makes a retention.
    public init(maxSize: Int? = nil, maxFiles: Int? = nil) {
      self.maxSize = maxSize
      self.maxFiles = maxFiles
    }
  }

  /// The name, unique among nodes, composites and monitors: `[A-Za-z0-9][A-Za-z0-9_-]{0,40}`.
  public var name: String
  /// What the node hosts.
  public var content: Content
  /// The executable; `nil` takes the topology's.
  public var program: String?
  /// What the machine decodes its parameters from; an object.
  public var parameters: JSONValue
  /// Variables added to the node's environment.
  public var environment: [String: String]
  /// The working directory of the node's process, from the topology file's directory; `nil` for the orchestrator's.
  public var workingDirectory: String?
  /// How the node is stopped, where it differs from the topology.
  public var stop: StopPolicy
  /// How much is kept of the node's log, where it differs from the topology.
  public var logs: Logs
  /// When the node is started again.
  public var restart: RestartPolicy
  /// Whether the node's failure takes the topology down. Default: `false`.
  public var required: Bool
  /// The nodes that this one starts after, each once.
  public var dependsOn: Set<NodeDependency>
  /// What the node's state survives; `nil` takes the default, ``Durability/process``.
  public var durability: Durability?
  /// The place where the node runs, by the name that a deployment has for it; `nil` for where the
  /// orchestrator does. Without a deployment it says nothing.
  public var place: String?
  /// What becomes of the node when its host may be lost; only with a place. Default: ``HostLossPolicy/wait``.
  public var hostLossPolicy: HostLossPolicy

  /// Makes a node.
  public init(
    name: String, content: Content, program: String? = nil, parameters: JSONValue = [:],
    environment: [String: String] = [:], restart: RestartPolicy = RestartPolicy(),
    required: Bool = false, dependsOn: Set<NodeDependency> = [], durability: Durability? = nil,
    place: String? = nil, hostLossPolicy: HostLossPolicy = .wait, workingDirectory: String? = nil,
    stop: StopPolicy = StopPolicy(), logs: Logs = Logs()
  ) {
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
    place: String? = nil, hostLossPolicy: HostLossPolicy = .wait
  ) -> NodeSpecification {
    NodeSpecification(
      name: name, content: .machine(machine), program: program, parameters: parameters,
      environment: environment, restart: restart, required: required, dependsOn: dependsOn,
      durability: durability, place: place, hostLossPolicy: hostLossPolicy)
  }

  /// Makes a node that stays in one state.
  public static func constant(
    _ state: JSONValue, name: String, machine: String? = nil, program: String? = nil
  ) -> NodeSpecification {
    NodeSpecification(
      name: name, content: .constant(state, machine: machine), program: program)
  }

  /// The policy as a file has it: left out beside no place, where it must not stand.
  var writtenHostLossPolicy: HostLossPolicy? {
    get { place == nil && hostLossPolicy == .wait ? nil : hostLossPolicy }
    set { hostLossPolicy = newValue ?? .wait }
  }

  /// The machine's registered name, which a constant may do without.
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
  /// The nodes that it watches; `nil` watches all.
  public var watch: [String]?
  /// The executable; `nil` takes the topology's.
  public var program: String?
  /// What the monitor decodes its parameters from; an object.
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

/// What becomes of a node while nobody can tell whether the host that it ran on is still there.
public enum HostLossPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// Nothing is started in its place until it is certain that its process has ended.
  case wait
  /// Its process gives up by itself after a time, and then another one starts in its place.
  case move
}
