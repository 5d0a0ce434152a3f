import PipeSupport
import PipeWire

// What nodes start after.
extension TopologyReading {
  /// A mapping from nodes to conditions, or a list of nodes that must run.
  mutating func dependencies(_ place: TopologyPlace) -> Set<NodeDependency> {
    if case .sequence(let nodes) = place.node.content {
      for node in nodes {
        guard case .scalar(let scalar) = node.content else { continue }
        source.record(place.path + [scalar.text], key: node.mark, value: node.mark)
      }
      return Set((nameList(place) ?? []).map { NodeDependency($0) })
    }
    var dependencies: Set<NodeDependency> = []
    for member in members(of: place, hint: "a mapping such as { door: ready }") ?? [] {
      checkText(of: member, title: place.title)
      // A condition that could not be read leaves a dependency of which other things can be wrong.
      dependencies.insert(NodeDependency(member.key, condition(member.value) ?? .running))
    }
    return dependencies
  }

  private mutating func condition(_ place: TopologyPlace) -> NodeDependency.Condition? {
    guard case .mapping(let entries) = place.node.content else { return readiness(place) }
    let fields = fields(of: place, TopologyKeys.dependency) ?? [:]
    if let state = fields["state"] { return stateCondition(state).map { .state($0) } }
    // A key that there is not has been told of.
    if entries.isEmpty {
      report(.missingKey, place, "has no 'state'; add it, or write 'ready' without braces")
    }
    return nil
  }

  private mutating func readiness(_ place: TopologyPlace) -> NodeDependency.Condition? {
    var text = ""
    if case .scalar(let scalar) = place.node.content {
      if scalar.value.string == "ready" { return .running }
      text = scalar.text
    }
    report(
      .badValue, place,
      "cannot be \(place.node.summary); write 'ready', or a state to wait for, as in "
        + "{ state: closed }" + Suggestion.hint(for: text, among: ["ready"]))
    return nil
  }

  private mutating func stateCondition(_ place: TopologyPlace) -> StateCondition? {
    guard let value = json(place) else { return nil }
    let condition = StateCondition(value)
    if condition.isWellFormed { return condition }
    let found = value == [:] ? "an empty mapping" : place.node.summary
    report(
      .badValue, place,
      "must be a label, {label: {field: value}}, or some fields of a struct, not \(found)")
    return nil
  }

  // MARK: References

  /// Checks what a node says of one that it starts after.
  mutating func checkDependency(
    _ dependency: NodeDependency, of node: NodeSpecification, in topology: Topology, _ names: Names
  ) {
    let owner = "node '\(node.name)'"
    let name = dependency.node
    let mark = dependencyMark(of: name, for: node)
    if names.isComposite(name) {
      report(
        .unknownNode, at: mark,
        "\(owner): '\(name)' is a composite, and a node starts after nodes; name those of its "
          + "components that it needs, each with its own state")
    } else if names.isMonitor(name) {
      report(
        .unknownNode, at: mark,
        "\(owner): '\(name)' is a monitor, which has no states, and for which nobody waits; name a "
          + "node")
    } else {
      checkNodeName(name, at: mark, owner: owner, names)
    }
    guard let condition = dependency.state, let constant = topology.node(name)?.constant,
      !condition.matches(constant)
    else { return }
    report(
      .unknownState, at: source.mark(of: ["nodes", node.name, "depends_on", name, "state"]),
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
