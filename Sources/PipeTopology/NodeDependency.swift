import PipeMachines
import PipeSupport
import PipeWire

/// A node that another one starts after, and when that may be.
public struct NodeDependency: Hashable, Sendable {
  /// What must hold of the node before the other one goes.
  public enum Condition: Hashable, Sendable {
    /// It runs, or has ended by itself with code 0.
    case running
    /// It does, and has been in this state since the other one was started.
    case state(StateCondition)
  }

  /// The node's name.
  public var node: String
  /// What must hold of it.
  public var condition: Condition

  /// Makes a dependency.
  public init(_ node: String, _ condition: Condition = .running) {
    self.node = node
    self.condition = condition
  }

  /// The state that is waited for; `nil` where it is enough that the node runs.
  package var state: StateCondition? {
    if case .state(let state) = condition { state } else { nil }
  }
}

extension NodeDependency: ExpressibleByStringLiteral {
  /// A node that must run.
  public init(stringLiteral node: String) { self.init(node) }
}

extension NodeSpecification {
  /// The nodes that this one starts after.
  var dependencyNames: Set<String> { Set(dependsOn.map(\.node)) }
}

extension Topology {
  /// Nodes that wait for each other in a circle, each named before the one it waits for; one circle
  /// for each knot.
  package var dependencyCycles: [[String]] {
    var remaining = waitingInCircles
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
      // Whoever led into the circle waits only because of it.
      for name in walk { remaining[name] = nil }
    }
    return cycles
  }

  /// The nodes in or behind a circle, and what each waits for: what is left when those that wait for
  /// nobody are taken out again and again.
  private var waitingInCircles: [String: Set<String>] {
    let names = Set(nodes.map(\.name))
    var waiting: [String: Set<String>] = [:]
    var dependents: [String: [String]] = [:]
    for node in nodes {
      waiting[node.name] = node.dependencyNames.intersection(names)
      for name in node.dependencyNames { dependents[name, default: []].append(node.name) }
    }
    var ready = nodes.map(\.name).filter { waiting[$0]?.isEmpty == true }
    var index = 0
    while index < ready.count {
      let name = ready[index]
      index += 1
      guard waiting.removeValue(forKey: name) != nil else { continue }
      for dependent in dependents[name] ?? [] {
        waiting[dependent]?.remove(name)
        if waiting[dependent]?.isEmpty == true { ready.append(dependent) }
      }
    }
    return waiting
  }
}

// What nodes start after.
extension TopologyReading {
  /// Checks what a node says of one that it starts after.
  mutating func checkDependency(
    _ dependency: NodeDependency, of node: NodeSpecification, in topology: Topology
  ) {
    let owner = "node '\(node.name)'"
    let name = dependency.node
    let mark = dependencyMark(of: name, for: node)
    if names[name]?.kind == .composite {
      report(
        .unknownNode, at: mark,
        "\(owner): '\(name)' is a composite, and a node starts after nodes; name those of its "
          + "components that it needs, each with its own state")
    } else if names[name]?.kind == .monitor {
      report(
        .unknownNode, at: mark,
        "\(owner): '\(name)' is a monitor, which has no states, and for which nobody waits; name a "
          + "node")
    } else {
      checkName(name, at: mark, owner: owner)
    }
    guard let condition = dependency.state, let constant = topology.node(name)?.constant,
      !condition.matches(constant)
    else { return }
    report(
      .unknownState, at: ["nodes", node.name, "depends_on", name, "state"],
      "\(owner): node '\(name)' is constant and never in \(condition); it stays in "
        + constant.caseText)
  }

  mutating func checkCycles(in topology: Topology) {
    for cycle in topology.dependencyCycles {
      guard let first = cycle.first, let node = topology.node(first) else { continue }
      let mark = dependencyMark(of: cycle.count > 1 ? cycle[1] : first, for: node)
      let circle = (cycle + [first]).map { "'\($0)'" }.joined(separator: " -> ")
      report(
        .dependencyCycle, at: mark,
        "nodes wait for each other and never start: \(circle); remove one 'depends_on' of these")
    }
  }

  /// Where a node names another in `depends_on`, whichever of the two forms it takes.
  private func dependencyMark(of name: String, for node: NodeSpecification) -> SourceMark {
    source.mark(ofKey: ["nodes", node.name, "depends_on", name])
  }
}

// What nodes start after.
extension TopologyValue<Set<NodeDependency>> {
  /// A mapping from nodes to conditions, or a list of nodes that must run.
  static var dependencies: Self {
    let conditions: JSONValue = [
      "anyOf": [["enum": ["ready"]], .variable, .reference("dependency")]
    ]
    let mapping: JSONValue = ["type": "object", "additionalProperties": conditions]
    return Self(
      schema: ["anyOf": [mapping, .reference("nodeList")]],
      definitions: TopologyKeys.dependency.definitions(as: "dependency"),
      write: OrderedValue.dependencies
    ) { $0.dependencies($1) }
  }
}

extension TopologyValue<StateCondition> {
  /// A state to wait for: of a struct, some fields.
  static var condition: Self {
    let fields: JSONValue = ["type": "object", "minProperties": 1]
    let schema: JSONValue = ["anyOf": [.reference("caseName"), .variable, fields]]
    return Self(schema: schema, write: { .literal($0.state) }) { reading, place in
      guard let value = reading.json(place) else { return nil }
      let condition = StateCondition(value)
      if condition.isWellFormed { return condition }
      let found = value == [:] ? "an empty mapping" : place.node.summary
      reading.report(
        .badValue, place,
        "must be a label, {label: {field: value}}, or some fields of a struct, not \(found)")
      return nil
    }
  }
}

extension OrderedValue {
  fileprivate static func dependencies(_ dependencies: Set<NodeDependency>) -> OrderedValue? {
    named(
      dependencies.sorted { $0.node < $1.node }.map { dependency in
        (dependency.node, dependency.state.map(TopologyKeys.dependency.written) ?? .text("ready"))
      })
  }
}

extension TopologyReading {
  fileprivate mutating func dependencies(_ place: TopologyPlace) -> Set<NodeDependency> {
    if let names = nameList(findable: place) { return Set(names.map { NodeDependency($0) }) }
    var dependencies: Set<NodeDependency> = []
    for member in members(of: place, hint: "a mapping such as { door: ready }") ?? [] {
      checkText(of: member, title: place.title)
      // A condition that could not be read leaves a dependency of which other things can be wrong.
      dependencies.insert(NodeDependency(member.key, condition(member.value) ?? .running))
    }
    return dependencies
  }

  private mutating func condition(_ place: TopologyPlace) -> NodeDependency.Condition? {
    if case .mapping = place.node.content {
      return TopologyKeys.dependency.read(&self, place, into: nil)?.map { .state($0) }
    }
    let scalar = place.node.scalar
    if scalar?.value.string == "ready" { return .running }
    report(
      .badValue, place,
      "cannot be \(place.node.summary); write 'ready', or a state to wait for, as in "
        + "{ state: closed }" + Suggestion.hint(for: scalar?.text ?? "", among: ["ready"]))
    return nil
  }
}

extension TopologyChecker {
  /// Checks the states that a node waits for: one that there is not would be waited for without end.
  mutating func checkDependencies(of node: NodeSpecification) {
    for dependency in node.dependsOn {
      // That a constant is in a state is told by the file alone.
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
