extension Topology {
  /// The nodes so that each comes after those it depends on; otherwise in the order of the file.
  ///
  /// Nodes that wait for each other, or for one that is not there, are left out.
  public var startOrder: [String] { settle().order }

  /// Nodes that wait for each other in a circle, each named before the one it waits for; one circle
  /// for each knot.
  package var dependencyCycles: [[String]] {
    var remaining = settle().waiting
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

  /// Takes nodes that wait for nobody, until only those in or behind a circle are left.
  private func settle() -> (order: [String], waiting: [String: Set<String>]) {
    let names = Set(nodes.map(\.name))
    var waiting: [String: Set<String>] = [:]
    var dependents: [String: [String]] = [:]
    for node in nodes {
      waiting[node.name] = node.dependsOn.intersection(names)
      for name in node.dependsOn { dependents[name, default: []].append(node.name) }
    }
    var order: [String] = []
    var ready = nodes.map(\.name).filter { waiting[$0]?.isEmpty == true }
    var index = 0
    while index < ready.count {
      let name = ready[index]
      index += 1
      guard waiting.removeValue(forKey: name) != nil else { continue }
      order.append(name)
      for dependent in dependents[name] ?? [] {
        waiting[dependent]?.remove(name)
        if waiting[dependent]?.isEmpty == true { ready.append(dependent) }
      }
    }
    return (order, waiting)
  }
}
