import PipeMachines
import PipeSupport
import PipeWire

/// A dependency of one node on another node, with a condition on the other node.
public struct NodeDependency: Hashable, Sendable {
  /// The condition that must hold before the dependent node starts.
  public enum Condition: Hashable, Sendable {
    /// The other node is running, or has exited by itself with code 0.
    case running
    /// The other node meets ``running``, and has been in this state at some time since the
    /// dependent node was asked to start.
    case state(StateCondition)
  }

  /// The name of the node to wait for.
  public var node: String
  /// The condition that the other node must meet.
  public var condition: Condition

  /// Makes a dependency.
  public init(_ node: String, _ condition: Condition = .running) {
    self.node = node
    self.condition = condition
  }

  /// The state to wait for; `nil` if the other node only has to be running.
  package var state: StateCondition? {
    if case .state(let state) = condition { state } else { nil }
  }
}

extension NodeDependency: ExpressibleByStringLiteral {
  /// Makes a dependency on a node that must run.
  public init(stringLiteral node: String) { self.init(node) }
}

extension NodeSpecification {
  /// The names of the nodes that this node depends on.
  var dependencyNames: Set<String> { Set(dependsOn.map(\.node)) }
}

extension Topology {
  /// The dependency cycles. In each cycle, each node waits for the next node.
  ///
  /// If several cycles are connected, only one of them is listed.
  package var dependencyCycles: [[String]] {
    var remaining = nodesBlockedByCycles
    var cycles: [[String]] = []
    for node in nodes where remaining[node.name] != nil {
      guard remaining[node.name] != nil else { continue }
      var walk = [node.name]
      var next = remaining[node.name]!.min()
      while let name = next, !walk.contains(name) {
        walk.append(name)
        next = remaining[name]?.min()
      }
      if let next, let start = walk.firstIndex(of: next), remaining[next] != nil {
        cycles.append(Array(walk[start...]))
      }
      // The other nodes on this path are not part of the cycle. They are blocked only because they
      // depend on the cycle.
      for name in walk { remaining[name] = nil }
    }
    return cycles
  }

  /// The nodes that are in a cycle or depend on a cycle, each with the nodes that it waits for.
  ///
  /// The algorithm repeatedly removes a node that waits for no other node. The result contains the
  /// remaining nodes.
  private var nodesBlockedByCycles: [String: Set<String>] {
    let names = Set(nodes.map(\.name))
    var waitingNodes: [String: Set<String>] = [:]
    var dependents: [String: [String]] = [:]
    for node in nodes {
      waitingNodes[node.name] = node.dependencyNames.intersection(names)
      for name in node.dependencyNames { dependents[name, default: []].append(node.name) }
    }
    var ready = nodes.map(\.name).filter { waitingNodes[$0]?.isEmpty == true }
    var index = 0
    while index < ready.count {
      let name = ready[index]
      index += 1
      guard waitingNodes.removeValue(forKey: name) != nil else { continue }
      for dependent in dependents[name] ?? [] {
        waitingNodes[dependent]?.remove(name)
        if waitingNodes[dependent]?.isEmpty == true { ready.append(dependent) }
      }
    }
    return waitingNodes
  }
}

extension TopologyReading {
  /// Checks one dependency of a node.
  mutating func checkDependency(
    _ dependency: NodeDependency, of node: NodeSpecification, in topology: Topology
  ) {
    let owner = "node '\(node.name)'"
    let name = dependency.node
    let mark = dependencyPosition(of: name, for: node)
    if definitionsByName[name]?.kind == .composite {
      report(
        .unknownNode, at: mark,
        "\(owner): '\(name)' is a composite, and 'depends_on' lists only nodes; name the required "
          + "nodes of the composite, each with its own state")
    } else if definitionsByName[name]?.kind == .monitor {
      report(
        .unknownNode, at: mark,
        "\(owner): '\(name)' is a monitor, which has no states to wait for; name a node")
    } else {
      checkName(name, at: mark, owner: owner)
    }
    guard let condition = dependency.state, let other = topology.node(name) else { return }
    if other.key != nil {
      report(
        .unknownState, at: ["nodes", node.name, "depends_on", name, "state"],
        "\(owner): node '\(name)' has a 'key', so each of its instances has its own state; write "
          + "'\(name): ready'")
    }
    guard let constant = other.constant, !condition.matches(constant) else { return }
    report(
      .unknownState, at: ["nodes", node.name, "depends_on", name, "state"],
      "\(owner): node '\(name)' is constant and never in \(condition); it stays in "
        + constant.caseText)
  }

  mutating func checkCycles(in topology: Topology) {
    for cycle in topology.dependencyCycles {
      guard let first = cycle.first, let node = topology.node(first) else { continue }
      let mark = dependencyPosition(of: cycle.count > 1 ? cycle[1] : first, for: node)
      let cycleText = (cycle + [first]).map { "'\($0)'" }.joined(separator: " -> ")
      report(
        .dependencyCycle, at: mark,
        "dependency cycle: nodes wait for each other and never start: \(cycleText); remove one of "
          + "these 'depends_on'")
    }
  }

  /// Returns the location of a name in a node's `depends_on`.
  private func dependencyPosition(of name: String, for node: NodeSpecification) -> TextPosition {
    source.position(ofKey: ["nodes", node.name, "depends_on", name])
  }
}

extension TopologyValueType<Set<NodeDependency>> {
  /// The type of a mapping from nodes to conditions, or of a list of nodes that must be running.
  static var dependencies: Self {
    let conditions: JSONValue = [
      "anyOf": [["enum": ["ready"]], .variable, .reference("dependency")]
    ]
    let mapping: JSONValue = ["type": "object", "additionalProperties": conditions]
    return Self(
      schema: ["anyOf": [mapping, .reference("nodeList")]],
      schemaDefinitions: TopologyKeys.dependency.schemaDefinitions(as: "dependency"),
      writeValue: OrderedValue.dependencies
    ) { $0.dependencies($1) }
  }
}

extension TopologyValueType<StateCondition> {
  /// The type of a condition on a state: the state to wait for or, if the state is a struct, some
  /// of its fields.
  static var condition: Self {
    let fields: JSONValue = ["type": "object", "minProperties": 1]
    let schema: JSONValue = ["anyOf": [.reference("caseName"), .variable, fields]]
    return Self(schema: schema, writeValue: { .literal($0.state) }) { reading, cursor in
      guard let value = reading.json(cursor) else { return nil }
      let condition = StateCondition(value)
      if condition.isWellFormed { return condition }
      let found = value == [:] ? "an empty mapping" : cursor.node.summary
      reading.report(
        .badValue, cursor,
        "must be a label, {label: {field: value}}, or some fields of a struct, not \(found)")
      return nil
    }
  }
}

extension OrderedValue {
  fileprivate static func dependencies(_ dependencies: Set<NodeDependency>) -> OrderedValue? {
    named(
      dependencies.sorted { $0.node < $1.node }.map { dependency in
        (dependency.node, dependency.state.map(TopologyKeys.dependency.document) ?? .text("ready"))
      })
  }
}

extension TopologyReading {
  fileprivate mutating func dependencies(_ cursor: TopologyCursor) -> Set<NodeDependency> {
    if let names = readNames(recordingPositionsOf: cursor) {
      return Set(names.map { NodeDependency($0) })
    }
    var dependencies: Set<NodeDependency> = []
    for member in members(of: cursor, hint: "a mapping such as { door: ready }") ?? [] {
      checkText(of: member, title: cursor.title)
      // A dependency with an invalid condition is kept, so that other errors of the dependency are
      // reported as well.
      dependencies.insert(NodeDependency(member.key, condition(member.value) ?? .running))
    }
    return dependencies
  }

  private mutating func condition(_ cursor: TopologyCursor) -> NodeDependency.Condition? {
    if case .mapping = cursor.node.content {
      return TopologyKeys.dependency.read(&self, cursor, into: nil)?.map { .state($0) }
    }
    let scalar = cursor.node.scalar
    if scalar?.value.string == "ready" { return .running }
    report(
      .badValue, cursor,
      "cannot be \(cursor.node.summary); write 'ready', or a state to wait for, as in "
        + "{ state: closed }" + Suggestion.hint(for: scalar?.text ?? "", among: ["ready"]))
    return nil
  }
}

extension TopologyChecker {
  /// Checks that the states that a node waits for exist in the other nodes' machines. Otherwise,
  /// the node would wait forever.
  mutating func checkDependencies(of node: NodeSpecification) {
    for dependency in node.dependsOn {
      // The reader has already checked the states of constant nodes.
      guard let condition = dependency.state, let other = topology.node(dependency.node),
        other.constant == nil, let machine = machine(of: other),
        let problem = condition.problem(with: machine, owner: "node '\(other.name)'")
      else { continue }
      report(
        .unknownState, at: ["nodes", node.name, "depends_on", other.name, "state"],
        "node '\(node.name)': \(problem)")
    }
  }
}
