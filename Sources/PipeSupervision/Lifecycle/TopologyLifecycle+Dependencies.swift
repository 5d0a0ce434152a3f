extension [TopologyLifecycle.Member] {
  /// These nodes and all that they depend on, in the order of the members.
  package func dependencies(of names: some Sequence<String>) -> [String] {
    let needed = Dictionary(map { ($0.name, $0.dependencies.map(\.node)) }) { first, _ in first }
    return reached(from: names) { needed[$0] ?? [] }
  }

  /// These nodes and all that depend on them, in the order of the members.
  package func dependents(of names: some Sequence<String>) -> [String] {
    var dependents: [String: [String]] = [:]
    for member in self {
      for dependency in member.dependencies {
        dependents[dependency.node, default: []].append(member.name)
      }
    }
    return reached(from: names) { dependents[$0] ?? [] }
  }

  private func reached(
    from names: some Sequence<String>, by next: (String) -> [String]
  ) -> [String] {
    var found: Set<String> = []
    var open = [String](names)
    while let name = open.popLast() {
      if found.insert(name).inserted { open += next(name) }
    }
    return map(\.name).filter(found.contains)
  }
}
