/// The order in which nodes go and stop: waves of names, each wave after all it depends on.
package struct StartPlan: Hashable, Sendable {
  /// Each wave needs only nodes of earlier waves.
  package let waves: [[String]]
  /// The reverse: nobody stops before those that depend on it.
  package var stopWaves: [[String]] { waves.reversed() }

  /// - Parameters:
  ///   - nodes: In file order, which is kept within a wave.
  ///   - dependencies: What each node starts after. Unknown names are ignored; a cycle, which the
  ///     topology's validation refuses, ends up together in the last wave.
  ///   - preferences: What each node had better start after as well. They give way where they form
  ///     a circle, with dependencies or without.
  ///   - observers: They form a wave before all others, and so stop after them.
  package init(
    nodes: [String], dependencies: [String: [String]], preferences: [String: [String]] = [:],
    observers: [String] = []
  ) {
    let known = Set(nodes)
    var remaining = nodes
    var placed: Set<String> = []
    var waves: [[String]] = observers.isEmpty ? [] : [observers]
    while !remaining.isEmpty {
      let possible = remaining.filter { node in
        (dependencies[node] ?? []).allSatisfy { placed.contains($0) || !known.contains($0) }
      }
      let preferred = possible.filter { node in
        (preferences[node] ?? []).allSatisfy { placed.contains($0) || !known.contains($0) }
      }
      let wave = preferred.isEmpty ? possible : preferred
      guard !wave.isEmpty else {
        waves.append(remaining)
        break
      }
      placed.formUnion(wave)
      waves.append(wave)
      remaining.removeAll { placed.contains($0) }
    }
    self.waves = waves
  }
}

extension StartPlan {
  /// The order in which members of a topology go and stop.
  /// - Parameter endsSendersFirst: Whether senders end before their receivers where they can.
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
