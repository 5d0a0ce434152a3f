import PipeWire

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
