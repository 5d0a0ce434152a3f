import PipeMachines
import PipeWire

/// Which machines run, and how they are wired: a topology file as a value.
///
/// ```swift
/// let topology = Topology(
///   name: "elevator", program: "nodes",
///   nodes: [
///     .machine("ElevatorDoor", name: "door", parameters: ["capacity": 10], required: true),
///     .machine("FloorDisplay", name: "display"),
///   ],
///   pipes: [
///     .ports(from: "door.arrivals", to: "display.updates"),
///     .rule(from: "door", when: "closed", to: "display", send: "refresh"),
///   ])
/// ```
/// Source: DESIGN.md 5.
public struct Topology: Sendable {
  /// The name, by which a running topology is found: `[A-Za-z0-9][A-Za-z0-9_.-]{0,40}`.
  public var name: String
  /// The executable of each node that names none.
  public var program: String?
  /// Variables added to every node's environment.
  public var environment: [String: String]
  /// The nodes, in the order of the file.
  public var nodes: [NodeSpecification]
  /// The pipes, in the order of the file.
  public var pipes: [PipeSpecification]
  /// The composites, in the order of the file.
  public var composites: [CompositeSpecification]
  /// The monitors that start with the topology.
  public var monitors: [MonitorSpecification]
  /// How long the parts of a life may take.
  public var timeouts: Timeouts
  /// How much is kept of each log.
  public var logs: LogRetention
  /// What `check --explore` goes by; `nil` where the file says nothing of it.
  public var explore: ExploreSection?
  /// The warnings of `check` that are expected, by their codes.
  public var silence: [Diagnostic.Code]

  /// Makes a topology; ``TopologyReader/read(_:)`` validates it.
  public init(
    name: String, program: String? = nil, environment: [String: String] = [:],
    nodes: [NodeSpecification] = [], pipes: [PipeSpecification] = [],
    composites: [CompositeSpecification] = [], monitors: [MonitorSpecification] = [],
    timeouts: Timeouts = Timeouts(), logs: LogRetention = LogRetention(),
    explore: ExploreSection? = nil,
    silence: [Diagnostic.Code] = []
  ) {
    self.name = name
    self.program = program
    self.environment = environment
    self.nodes = nodes
    self.pipes = pipes
    self.composites = composites
    self.monitors = monitors
    self.timeouts = timeouts
    self.logs = logs
    self.explore = explore
    self.silence = silence
  }

  /// The node of a name, or `nil`.
  public func node(_ name: String) -> NodeSpecification? {
    nodes.first { $0.name == name }
  }

  /// The composite of a name, or `nil`.
  public func composite(_ name: String) -> CompositeSpecification? {
    composites.first { $0.name == name }
  }

  /// What the state of a node survives, or the states of all a composite's nodes but those that
  /// survive less.
  public func durability(of name: String) -> Durability {
    if let node = node(name) { return node.durability ?? .standard }
    return machines(of: name).compactMap(node).map { $0.durability ?? .standard }.max()
      ?? .standard
  }

  /// The place of a node, or of the node within which a composite is coordinated; `nil` for where the
  /// orchestrator runs.
  public func place(of name: String) -> String? {
    node(name)?.place ?? composite(name)?.within.flatMap(node)?.place
  }

  /// The nodes that a composite consists of, those of composites in it included.
  func machines(of composite: String) -> Set<String> {
    var names: Set<String> = []
    var open = [composite]
    while let name = open.popLast() {
      guard names.insert(name).inserted else { continue }
      open += self.composite(name)?.components ?? []
    }
    return names
  }

  /// What the events of a pipe survive: its own level, or the lower one of its two nodes.
  public func durability(of pipe: PipeSpecification) -> Durability {
    pipe.durability ?? min(durability(of: pipe.sender), durability(of: pipe.receiver))
  }

  /// The executable that hosts a node: its own, or the topology's.
  public func program(of node: NodeSpecification) -> String? { node.program ?? program }

  /// The executable that hosts a monitor: its own, or the topology's.
  public func program(of monitor: MonitorSpecification) -> String? { monitor.program ?? program }

  /// The executable that coordinates a composite: its own, or the topology's.
  public func program(of composite: CompositeSpecification) -> String? {
    composite.program ?? program
  }

  /// Every executable that the topology runs, sorted.
  public var programs: [String] {
    Set(
      nodes.compactMap(program(of:)) + composites.compactMap(program(of:))
        + monitors.compactMap(program(of:))
    ).sorted()
  }

  /// Where the topology first names an executable, as a path for ``SourceMap``.
  public func path(ofProgram program: String) -> [String] {
    if program == self.program { return ["program"] }
    if let node = nodes.first(where: { $0.program == program }) {
      return ["nodes", node.name, "program"]
    }
    if let composite = composites.first(where: { $0.program == program }) {
      return ["composites", composite.name, "program"]
    }
    if let monitor = monitors.first(where: { $0.program == program }) {
      return ["monitors", monitor.name, "program"]
    }
    return []
  }

  /// How long the parts of a node's life may take: the topology's timeouts, overridden by the node's own.
  public func timeouts(of node: NodeSpecification) -> Timeouts {
    var timeouts = timeouts
    if let stop = node.stop.timeout { timeouts.stop = stop }
    return timeouts
  }

  /// How much is kept of a node's log: what the topology says, overridden by the node's own.
  public func logs(of node: NodeSpecification) -> LogRetention {
    LogRetention(
      maxSize: node.logs.maxSize ?? logs.maxSize, maxFiles: node.logs.maxFiles ?? logs.maxFiles)
  }

  /// The variables of a node's environment: the topology's, overridden by its own.
  public func environment(of node: NodeSpecification) -> [String: String] {
    environment.merging(node.environment) { _, own in own }
  }
}

extension Topology: Equatable {
  /// Equal in all but the order of nodes, composites and monitors, which are maps in the file.
  public static func == (left: Topology, right: Topology) -> Bool {
    left.name == right.name && left.program == right.program
      && left.environment == right.environment && left.pipes == right.pipes
      && left.timeouts == right.timeouts && left.logs == right.logs && left.explore == right.explore
      && left.silence == right.silence
      && left.nodes.sorted { $0.name < $1.name } == right.nodes.sorted { $0.name < $1.name }
      && left.composites.sorted { $0.name < $1.name }
        == right.composites.sorted { $0.name < $1.name }
      && left.monitors.sorted { $0.name < $1.name } == right.monitors.sorted { $0.name < $1.name }
  }
}

extension Topology {
  /// The same topology with every default written out.
  public var resolved: Topology {
    var resolved = self
    for index in nodes.indices {
      resolved.nodes[index].program = program(of: nodes[index])
      resolved.nodes[index].durability = nodes[index].durability ?? .standard
    }
    for index in pipes.indices {
      resolved.pipes[index].durability = knownDurability(of: pipes[index])
    }
    for index in composites.indices {
      resolved.composites[index].program = program(of: composites[index])
    }
    for index in monitors.indices {
      resolved.monitors[index].program = program(of: monitors[index])
      resolved.monitors[index].watch =
        monitors[index].watch ?? nodes.map(\.name) + composites.map(\.name)
    }
    return resolved
  }

  /// What the events of a pipe survive; `nil` where that depends on which node of a composite takes them,
  /// which its program tells.
  private func knownDurability(of pipe: PipeSpecification) -> Durability? {
    let level = durability(of: pipe)
    guard pipe.durability == nil, composite(pipe.receiver) != nil, pipe.send != nil else {
      return level
    }
    let nodes = machines(of: pipe.receiver).compactMap(node)
    return nodes.allSatisfy { $0.durability ?? .standard >= level } ? level : nil
  }

  /// The topology as JSON, which ``TopologyReader`` reads back to an equal value.
  public var json: JSONValue { ordered.json }

  /// The topology as YAML, which ``TopologyReader`` reads back to an equal value, in its order.
  public var yaml: String { ordered.yaml }

  private var ordered: OrderedValue { TopologyKeys.top.written(self) }
}

extension OrderedValue {
  static func text(_ text: String) -> OrderedValue { .literal(.string(text)) }

  /// A value that is read as it is: no dollar in it is a variable's.
  static func literal(_ value: JSONValue) -> OrderedValue { .leaf(value.withDoubledDollars) }

  /// A mapping, where there is anything in it.
  static func named(_ members: [(String, OrderedValue)]) -> OrderedValue? {
    members.isEmpty ? nil : .mapping(members.map { (key: $0.0, value: $0.1) })
  }

  static func names(_ names: [String]) -> OrderedValue { .leaf(.texts(names)) }
}

extension JSONValue {
  /// The same with `$$` for each dollar in its values.
  fileprivate var withDoubledDollars: JSONValue {
    switch self {
    case .string(let value): .string(value.replacing("$", with: "$$"))
    case .array(let values): .array(values.map(\.withDoubledDollars))
    case .object(let members): .object(members.mapValues(\.withDoubledDollars))
    case .null, .bool, .integer, .number: self
    }
  }
}
