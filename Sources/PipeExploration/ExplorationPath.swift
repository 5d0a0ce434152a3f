/// A shortest path from the first state to another one.
package struct ExplorationPath: Equatable, Sendable {
  /// The local state of each component, first those at the start.
  package private(set) var states: [[Int]]
  /// The vector of each step; one less than states. Where several lead from a state to the next, the first.
  package private(set) var vectors: [Int]

  init(
    to state: StateReference, in partitions: [Partition], _ model: ExplorationModel,
    _ program: CompiledModel
  ) {
    var chain = [(partition: state.partition, number: state.number)]
    while let origin = partitions[chain[chain.count - 1].partition]
      .origin(ofState: chain[chain.count - 1].number)
    {
      chain.append(origin)
    }
    states = [model.components.map(\.initial)]
    vectors = []
    for (partition, number) in chain.reversed().dropFirst() {
      let partition = partitions[partition]
      let locals = partition.isExact ? partition.locals(of: number) : nil
      let step = model.steps(from: states[states.count - 1]).first { _, target in
        if let locals { return target == locals }
        return program.fingerprint(program.layout.encode(target)) == partition.key(of: number)
      }
      guard let step else { return }
      states.append(step.target)
      vectors.append(step.vector)
    }
  }
}

extension ExplorationModel {
  /// The local state of each component at the start.
  package var initialState: [Int] { components.map(\.initial) }

  /// The steps from a state, as far as its cells are known.
  package func steps(from state: [Int]) -> some Sequence<(vector: Int, target: [Int])> {
    vectors.enumerated().lazy.compactMap { number, vector in
      var target = state
      for role in vector.roles {
        guard let next = self.target(of: role, in: state[role.component]) else { return nil }
        target[role.component] = next
      }
      return (number, target)
    }
  }

  /// Where a role leads; `nil` where it blocks, or that is not known.
  ///
  /// A vector that was added late knows nothing of contents that a queue had before, and that a search had
  /// no need to ask for again.
  private func target(of role: Role, in state: Int) -> Int? {
    let target = role.target(in: state)
    if target >= 0 { return Int(target) }
    guard target == Role.unknown, let operation = role.operation else { return nil }
    return components[role.component].queue?.knownNumber(after: operation, in: state)
  }

  /// Fills in what vectors do to contents of queues that were met, so far as that leads to others that were.
  package mutating func fillQueues() {
    for (number, vector) in vectors.enumerated() {
      for (place, role) in vector.roles.enumerated() where role.operation != nil {
        for state in 0..<components[role.component].stateCount
        where role.target(in: state) == Role.unknown {
          let next = target(of: role, in: state)
          set(next.map { .leads(to: $0) } ?? .blocked, ofRole: place, in: number, state)
        }
      }
    }
  }
}
