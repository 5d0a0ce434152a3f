/// The order in which nodes start and stop, in waves. A wave is a list of nodes that start
/// together, and comes after all dependencies of these nodes.
package struct StartPlan: Hashable, Sendable {
  /// The waves in the order in which they start. The nodes of a wave depend only on nodes of
  /// earlier waves.
  package let waves: [[String]]
  /// The waves in the order in which they stop, which is the reverse of the start order. The nodes
  /// that depend on a node stop before that node.
  package var stopWaves: [[String]] { waves.reversed() }

  /// - Parameters:
  ///   - nodes: The nodes in file order. Within a wave, the nodes keep this order.
  ///   - dependencies: For each node, the nodes that start before it. Unknown names are ignored.
  ///     The nodes of a cycle, and all nodes that depend on them, form the last wave together; the
  ///     check of the topology file rejects cycles.
  ///   - preferences: For each node, the nodes that start before it if possible. Preferences that
  ///     form a cycle, alone or together with dependencies, are ignored.
  ///   - observers: The nodes that form the first wave, and therefore stop last.
  package init(
    nodes: [String], dependencies: [String: [String]], preferences: [String: [String]] = [:],
    observers: [String] = []
  ) {
    let known = Set(nodes)
    var remaining = nodes
    var scheduled: Set<String> = []
    var waves: [[String]] = observers.isEmpty ? [] : [observers]
    while !remaining.isEmpty {
      let possible = remaining.filter { node in
        (dependencies[node] ?? []).allSatisfy { scheduled.contains($0) || !known.contains($0) }
      }
      let preferred = possible.filter { node in
        (preferences[node] ?? []).allSatisfy { scheduled.contains($0) || !known.contains($0) }
      }
      let wave = preferred.isEmpty ? possible : preferred
      guard !wave.isEmpty else {
        waves.append(remaining)
        break
      }
      scheduled.formUnion(wave)
      waves.append(wave)
      remaining.removeAll { scheduled.contains($0) }
    }
    self.waves = waves
  }
}

extension StartPlan {
  /// Creates the order in which the members of a topology start and stop.
  /// - Parameter endsSendersFirst: Whether senders stop before their receivers where possible.
  init(_ members: [TopologyLifecycle.Member], endsSendersFirst: Bool = false) {
    let byName = Dictionary(members.map { ($0.name, $0) }) { first, _ in first }
    self.init(
      nodes: members.filter { !$0.isObserver }.map(\.name),
      dependencies: byName.mapValues { $0.dependencies.map(\.node) },
      preferences: endsSendersFirst ? byName.mapValues(\.receivers) : [:],
      observers: members.filter(\.isObserver).map(\.name))
  }
}

extension [TopologyLifecycle.Member] {
  /// Returns the named nodes and their direct and indirect dependencies, in the order of the
  /// members.
  package func dependencies(of names: some Sequence<String>) -> [String] {
    let needed = Dictionary(map { ($0.name, $0.dependencies.map(\.node)) }) { first, _ in first }
    return reachable(from: names) { needed[$0] ?? [] }
  }

  /// Returns the named nodes and all nodes that directly or indirectly depend on them, in the order
  /// of the members.
  package func dependents(of names: some Sequence<String>) -> [String] {
    var dependents: [String: [String]] = [:]
    for member in self {
      for dependency in member.dependencies {
        dependents[dependency.node, default: []].append(member.name)
      }
    }
    return reachable(from: names) { dependents[$0] ?? [] }
  }

  private func reachable(
    from names: some Sequence<String>, by next: (String) -> [String]
  ) -> [String] {
    var reachedNodes: Set<String> = []
    var open = [String](names)
    while let name = open.popLast() {
      if reachedNodes.insert(name).inserted { open += next(name) }
    }
    return map(\.name).filter(reachedNodes.contains)
  }
}
