import PipeMachines
import PipeWire

/// The contents of a topology file: the machines that run as nodes, and the pipes between them.
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
/// Source: docs/TOPOLOGY.md.
public struct Topology: Sendable {
  /// The name that identifies a running topology: `[A-Za-z0-9][A-Za-z0-9_.-]{0,40}`.
  public var name: String
  /// The default executable for nodes, composites and monitors.
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
  /// The timeouts for starting, monitoring and stopping nodes.
  public var timeouts: Timeouts
  /// The limits of each log.
  public var logs: LogRetention
  /// The limits of each journal.
  public var journal: JournalRetention
  /// The settings of `check --explore`; `nil` if the file has no `explore` section.
  public var explore: ExploreSection?
  /// The codes of warnings that `check` does not report.
  public var silence: [Diagnostic.Code]

  /// Makes a topology without validating it; ``TopologyReader/read(_:)`` validates it.
  public init(
    name: String, program: String? = nil, environment: [String: String] = [:],
    nodes: [NodeSpecification] = [], pipes: [PipeSpecification] = [],
    composites: [CompositeSpecification] = [], monitors: [MonitorSpecification] = [],
    timeouts: Timeouts = Timeouts(), logs: LogRetention = LogRetention(),
    journal: JournalRetention = JournalRetention(), explore: ExploreSection? = nil,
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
    self.journal = journal
    self.explore = explore
    self.silence = silence
  }

  /// Returns the node with this name; `nil` if there is none.
  public func node(_ name: String) -> NodeSpecification? {
    nodes.first { $0.name == name }
  }

  /// Returns the composite with this name; `nil` if there is none.
  public func composite(_ name: String) -> CompositeSpecification? {
    composites.first { $0.name == name }
  }

  /// Returns the durability of a node's state or, for a composite, the highest durability among its
  /// nodes.
  public func durability(of name: String) -> Durability {
    if let node = node(name) { return node.durability ?? .standard }
    return memberNames(of: name).compactMap(node).map { $0.durability ?? .standard }.max()
      ?? .standard
  }

  /// Returns the place of a node or, for a composite, of its carrier node.
  ///
  /// `nil` means the host of the orchestrator.
  public func place(of name: String) -> String? {
    node(name)?.place ?? composite(name)?.within.flatMap(node)?.place
  }

  /// Returns the names of a composite and of all nodes and composites that it contains, directly or
  /// indirectly.
  func memberNames(of composite: String) -> Set<String> {
    var names: Set<String> = []
    var open = [composite]
    while let name = open.popLast() {
      guard names.insert(name).inserted else { continue }
      open += self.composite(name)?.components ?? []
    }
    return names
  }

  /// Returns the durability of a pipe's events: the pipe's own durability, or else the lower
  /// durability of its two nodes.
  public func durability(of pipe: PipeSpecification) -> Durability {
    pipe.durability ?? min(durability(of: pipe.sender), durability(of: pipe.receiver))
  }

  /// Returns the executable of a node: the node's own, or else the topology's.
  public func program(of node: NodeSpecification) -> String? { node.program ?? program }

  /// Returns the executable of a monitor: the monitor's own, or else the topology's.
  public func program(of monitor: MonitorSpecification) -> String? { monitor.program ?? program }

  /// Returns the executable of a composite's coordinator: the composite's own, or else the topology's.
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

  /// Returns the path, for ``SourceMap``, where the topology first names an executable.
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

  /// Returns the timeouts of a node: the topology's, overridden by the node's own.
  public func timeouts(of node: NodeSpecification) -> Timeouts {
    var timeouts = timeouts
    if let stop = node.stop.timeout { timeouts.stop = stop }
    return timeouts
  }

  /// Returns the log retention of a node: the topology's limits, overridden by the node's own.
  public func logs(of node: NodeSpecification) -> LogRetention {
    LogRetention(
      maxSize: node.logs.maxSize ?? logs.maxSize, maxFiles: node.logs.maxFiles ?? logs.maxFiles)
  }

  /// Returns the limits of a node's journal: the topology's limits, overridden by the node's own.
  public func journal(of node: NodeSpecification) -> JournalRetention {
    JournalRetention(
      records: node.journal.records ?? journal.records,
      recordAge: node.journal.recordAge ?? journal.recordAge,
      deadLetters: node.journal.deadLetters ?? journal.deadLetters)
  }

  /// Returns the environment variables of a node: the topology's, overridden by the node's own.
  public func environment(of node: NodeSpecification) -> [String: String] {
    environment.merging(node.environment) { _, own in own }
  }
}

extension Topology: Equatable {
  /// Returns whether two topologies are equal. The order of nodes, composites and monitors has no
  /// meaning, since they are mappings in the file.
  public static func == (left: Topology, right: Topology) -> Bool {
    left.name == right.name && left.program == right.program
      && left.environment == right.environment && left.pipes == right.pipes
      && left.timeouts == right.timeouts && left.logs == right.logs
      && left.journal == right.journal && left.explore == right.explore
      && left.silence == right.silence
      && left.nodes.sorted { $0.name < $1.name } == right.nodes.sorted { $0.name < $1.name }
      && left.composites.sorted { $0.name < $1.name }
        == right.composites.sorted { $0.name < $1.name }
      && left.monitors.sorted { $0.name < $1.name } == right.monitors.sorted { $0.name < $1.name }
  }
}

extension Topology {
  /// The topology with every default written out.
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
      resolved.monitors[index].watchedNames =
        monitors[index].watchedNames ?? nodes.map(\.name) + composites.map(\.name)
    }
    return resolved
  }

  /// Returns the durability of a pipe's events; `nil` if the topology alone does not determine it.
  ///
  /// The durability can depend on the node of a composite that accepts the event. Only the
  /// descriptions of the machines show this node.
  private func knownDurability(of pipe: PipeSpecification) -> Durability? {
    let level = durability(of: pipe)
    guard pipe.durability == nil, composite(pipe.receiver) != nil, pipe.eventTemplate != nil else {
      return level
    }
    let nodes = memberNames(of: pipe.receiver).compactMap(node)
    return nodes.allSatisfy { $0.durability ?? .standard >= level } ? level : nil
  }

  /// The topology as JSON; ``TopologyReader`` reads it back to an equal value.
  public var json: JSONValue { orderedValue.json }

  /// The topology as YAML; ``TopologyReader`` reads it back to an equal value, in the same order.
  public var yaml: String { orderedValue.yaml }

  private var orderedValue: OrderedValue { TopologyKeys.topLevel.document(of: self) }
}

extension OrderedValue {
  static func text(_ text: String) -> OrderedValue { .literal(.string(text)) }

  /// Returns a value in which each dollar sign is escaped as `$$`, so that the reader returns the
  /// original value.
  static func literal(_ value: JSONValue) -> OrderedValue { .leaf(value.withEscapedDollars) }

  /// Returns a mapping; `nil` if there are no entries.
  static func named(_ members: [(String, OrderedValue)]) -> OrderedValue? {
    members.isEmpty ? nil : .mapping(members.map { (key: $0.0, value: $0.1) })
  }

  static func names(_ names: [String]) -> OrderedValue { .leaf(.texts(names)) }
}

extension JSONValue {
  /// The value, with each `$` in its strings written as `$$`.
  fileprivate var withEscapedDollars: JSONValue {
    switch self {
    case .string(let value): .string(value.replacing("$", with: "$$"))
    case .array(let values): .array(values.map(\.withEscapedDollars))
    case .object(let members): .object(members.mapValues(\.withEscapedDollars))
    case .null, .bool, .integer, .number: self
    }
  }
}
