/// The graph of all steps between the visited states. It finds paths that together take a step of
/// every kind.
///
/// The caller defines the kinds of steps: each step is of any number of kinds.
struct StepGraph {
  private let partitions: [Partition]
  /// The number of the first state of each partition.
  private let firstNumbers: [Int]
  /// The end of each state's steps in `targetStates`, `vectors` and `kindSets`.
  private var stepEnds: [UInt32] = []
  private var targetStates: [UInt32] = []
  private var vectors: [UInt32] = []
  /// For each step, the index of its kinds in `kindTable`.
  private var kindSets: [UInt32] = []
  private var kindTable: [[Int]] = []
  private let initialState: Int

  /// The memory for one step, and for one state. Unit: bytes.
  private static let bytesPerStep = 12
  private static let bytesPerState = 16

  /// - Parameters:
  ///   - memory: The memory limit of the graph. Unit: bytes.
  ///   - kinds: Returns the kinds of a step, given its vector and the state in which it begins.
  /// - Returns: `nil` if the graph would exceed the limit.
  init?(
    _ partitions: [Partition], _ program: CompiledModel, _ model: ExplorationModel, memory: Int,
    kinds: (_ vector: Int, _ state: [Int]) -> [Int]
  ) {
    self.partitions = partitions
    var firstNumbers = [0]
    for partition in partitions {
      firstNumbers.append(firstNumbers[firstNumbers.count - 1] + partition.stateCount)
    }
    self.firstNumbers = firstNumbers
    let words = program.layout.encode(model.initialState)
    let fingerprint = program.fingerprint(words)
    let owner = Partition.owner(of: fingerprint, among: partitions.count)
    guard let initial = partitions[owner].number(of: words, fingerprint: fingerprint) else {
      return nil
    }
    initialState = firstNumbers[owner] + initial
    let stateCount = firstNumbers[firstNumbers.count - 1]
    let stepLimit = min(
      (memory - Self.bytesPerState * stateCount) / Self.bytesPerStep, Int(UInt32.max) - 1)
    var numbersByKinds: [[Int]: UInt32] = [:]
    for partition in partitions {
      for number in 0..<partition.stateCount {
        var steps: [(vector: Int, target: UInt32)] = []
        partition.forEachStep(of: number) { vector, target, fingerprint in
          let owner = Partition.owner(of: fingerprint, among: partitions.count)
          // If the search ended early, the graph has only the steps to visited states.
          guard let found = partitions[owner].number(of: target, fingerprint: fingerprint) else {
            return
          }
          steps.append((vector, UInt32(firstNumbers[owner] + found)))
        }
        let state = partition.locals(of: number)
        for (vector, target) in steps where model.isKnown(vector, in: state) {
          let kinds = kinds(vector, state)
          let kindSet = numbersByKinds[kinds] ?? UInt32(kindTable.count)
          if Int(kindSet) == kindTable.count {
            numbersByKinds[kinds] = kindSet
            kindTable.append(kinds)
          }
          targetStates.append(target)
          vectors.append(UInt32(vector))
          kindSets.append(kindSet)
        }
        guard targetStates.count <= stepLimit else { return nil }
        stepEnds.append(UInt32(targetStates.count))
      }
    }
  }

  /// The kinds of all steps.
  var kinds: Set<Int> { Set(kindTable.joined()) }

  /// Returns paths from the initial state that together take a step of every kind.
  ///
  /// A path always continues with a nearest step of a kind that no path has taken yet, and ends
  /// where it can reach no such step.
  /// - Parameter length: The number of steps after which a path ends.
  func coveringPaths(length: Int) -> [ExplorationPath] {
    var remaining = kinds
    var paths: [[Int]] = []
    var search = NearestStepSearch(self)
    while !remaining.isEmpty {
      var path: [Int] = []
      var state = initialState
      while !remaining.isEmpty, path.count < max(1, length),
        let next = search.path(from: state, toStepOf: remaining)
      {
        for step in next { remaining.subtract(kindTable[Int(kindSets[step])]) }
        path += next
        state = Int(targetStates[next[next.count - 1]])
      }
      // Each step of the graph can be reached from the initial state.
      guard !path.isEmpty else { break }
      paths.append(path)
    }
    return paths.map { path in
      ExplorationPath(
        states: ([initialState] + path.map { Int(targetStates[$0]) }).map(locals(of:)),
        vectors: path.map { Int(vectors[$0]) })
    }
  }

  private func locals(of state: Int) -> [Int] {
    let owner = (firstNumbers.firstIndex { $0 > state } ?? firstNumbers.count) - 1
    return partitions[owner].locals(of: state - firstNumbers[owner])
  }

  private func steps(of state: Int) -> Range<Int> {
    (state == 0 ? 0 : Int(stepEnds[state - 1]))..<Int(stepEnds[state])
  }

  /// A breadth-first search for the nearest step of some kind. It is used many times.
  private struct NearestStepSearch {
    private let graph: StepGraph
    private var round: UInt32 = 0
    /// For each state, the last round that has visited the state.
    private var rounds: [UInt32]
    /// For each visited state, the step that leads to the state.
    private var steps: [UInt32]
    /// The states in the order of their visits, each with the index of its predecessor here.
    private var queue: [(state: UInt32, predecessor: Int)] = []

    init(_ graph: StepGraph) {
      self.graph = graph
      rounds = Array(repeating: 0, count: graph.stepEnds.count)
      steps = rounds
    }

    /// Returns a shortest path that ends with a step of one of the kinds; `nil` if there is none.
    mutating func path(from start: Int, toStepOf kinds: Set<Int>) -> [Int]? {
      let counts = graph.kindTable.map { $0.count { kinds.contains($0) } }
      round += 1
      queue.removeAll(keepingCapacity: true)
      queue.append((UInt32(start), -1))
      rounds[start] = round
      var next = 0
      while next < queue.count {
        let state = Int(queue[next].state)
        var best: (step: Int, count: Int)?
        for step in graph.steps(of: state) {
          let count = counts[Int(graph.kindSets[step])]
          if count > best?.count ?? 0 { best = (step, count) }
        }
        if let best {
          var path = [best.step]
          var index = next
          while queue[index].predecessor >= 0 {
            path.append(Int(steps[Int(queue[index].state)]))
            index = queue[index].predecessor
          }
          return path.reversed()
        }
        for step in graph.steps(of: state) {
          let target = Int(graph.targetStates[step])
          guard rounds[target] != round else { continue }
          rounds[target] = round
          steps[target] = UInt32(step)
          queue.append((UInt32(target), next))
        }
        next += 1
      }
      return nil
    }
  }
}

extension ExplorationModel {
  /// Returns whether the target of a vector is known in a state in which the vector is enabled.
  fileprivate func isKnown(_ vector: Int, in state: [Int]) -> Bool {
    vectors[vector].roles.allSatisfy { $0.target(in: state[$0.component]) >= 0 }
  }
}
