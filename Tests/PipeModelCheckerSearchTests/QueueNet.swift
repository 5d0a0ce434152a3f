import PipeModelChecker

/// Nodes with one queue each. A step of a node removes a symbol from the node's queue and appends
/// symbols to another queue.
struct QueueNet {
  struct Step: Hashable {
    let from: Int
    let to: Int
    /// The symbol that the step removes from its node's queue; `nil` for none.
    let taken: Int?
    /// The queue to which the step appends symbols. `sent` has these symbols.
    let target: Int
    let sent: [Int]
  }

  /// The local state of each node, and the content of its queue.
  struct State: Hashable {
    var nodes: [Int]
    var queues: [[Int]]
  }

  var capacity: Int
  /// Whether a node removes the first acceptable symbol of its queue instead of the first symbol.
  let postpones: Bool
  let nodes: [[Step]]
  let initial: State

  var stateCounts: [Int] { nodes.map { ($0.flatMap { [$0.from, $0.to] }.max() ?? 0) + 1 } }

  /// Returns the symbols that a node accepts in a local state.
  private func accepted(_ node: Int, _ local: Int) -> Set<Int> {
    Set(nodes[node].filter { $0.from == local }.compactMap(\.taken))
  }

  /// Returns the model. Each step has a vector that is enabled only in the step's own local state,
  /// and only while all queues to which its node ever sends have capacity.
  func model() throws -> ExplorationModel {
    var model = ExplorationModel()
    for count in stateCounts { _ = model.addComponent(stateCount: count) }
    for queue in initial.queues { _ = model.addQueue(capacity: capacity, contents: queue) }
    for (node, steps) in nodes.enumerated() {
      for step in steps {
        var cells = Array(
          repeating: ExplorationModel.Cell.blocked, count: model.stateCount(of: node))
        cells[step.from] = .leads(to: step.to)
        var operations: [Int: QueueOperation] = [:]
        for other in steps {
          operations[other.target, default: QueueOperation()].requiresCapacity = true
        }
        operations[step.target]?.appendedSymbols = step.sent
        if step.taken != nil {
          operations[node, default: QueueOperation()].removedSymbol = step.taken
        }
        if postpones { operations[node]?.candidateSymbols = accepted(node, step.from) }
        _ = try model.addVector(
          [.table(node, cells)] + operations.map { .queue(nodes.count + $0.key, $0.value) })
      }
    }
    return model
  }

  func steps(from state: State) -> [State] {
    var found: [State] = []
    for (node, steps) in nodes.enumerated() {
      if steps.contains(where: { state.queues[$0.target].count >= capacity }) { continue }
      for step in steps where step.from == state.nodes[node] {
        var next = state
        next.nodes[node] = step.to
        if let taken = step.taken {
          let accepted = accepted(node, step.from)
          let head = next.queues[node].firstIndex { !postpones || accepted.contains($0) }
          guard let head, next.queues[node][head] == taken else { continue }
          next.queues[node].remove(at: head)
        }
        next.queues[step.target] += step.sent
        found.append(next)
      }
    }
    return found
  }

  static func random(_ seed: UInt64) -> QueueNet {
    var random = SeededNumbers(seed)
    let count = Int.random(in: 2...3, using: &random)
    let states = Int.random(in: 1...3, using: &random)
    let nodes = (0..<count).map { _ in
      Set(
        (0..<Int.random(in: 1...4, using: &random)).map { _ in
          Step(
            from: Int.random(in: 0..<states, using: &random),
            to: Int.random(in: 0..<states, using: &random),
            taken: Int.random(in: 0..<4, using: &random) == 0
              ? nil : Int.random(in: 0..<2, using: &random),
            target: Int.random(in: 0..<count, using: &random),
            sent: (0..<Int.random(in: 0...2, using: &random)).map { _ in
              Int.random(in: 0..<2, using: &random)
            })
        }
      ).sorted { ($0.from, $0.to, $0.target) < ($1.from, $1.to, $1.target) }
    }
    return QueueNet(
      capacity: Int.random(in: 1...3, using: &random), postpones: Bool.random(using: &random),
      nodes: nodes,
      initial: State(
        nodes: Array(repeating: 0, count: count),
        queues: (0..<count).map { _ in [Int.random(in: 0..<2, using: &random)] }))
  }
}
