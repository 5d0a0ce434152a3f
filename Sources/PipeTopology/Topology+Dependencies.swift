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
