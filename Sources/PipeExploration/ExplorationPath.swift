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
  /// The steps from a state, as far as its cells are known.
  func steps(from state: [Int]) -> some Sequence<(vector: Int, target: [Int])> {
    vectors.enumerated().lazy.compactMap { number, vector in
      var target = state
      for role in vector.roles {
        let next = role.target(in: state[role.component])
        if next < 0 { return nil }
        target[role.component] = Int(next)
      }
      return (number, target)
    }
  }
}
