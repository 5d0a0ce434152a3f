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
