import PipeModelChecker
import Testing

@Suite("Models with queues")
struct QueueTests {
  @Test(
    "A search with queues finds the same states, steps and deadlocks as a naive search",
    arguments: 0..<500 as Range)
  func agreement(_ seed: Int) async throws {
    let net = QueueNet.random(UInt64(seed))
    var met: Set<QueueNet.State> = [net.initial]
    var level = [net.initial]
    var steps = 0
    var deadlocks: Set<QueueNet.State> = []
    while !level.isEmpty {
      let found = level.map { ($0, net.steps(from: $0)) }
      for (state, targets) in found {
        steps += targets.count
        if targets.isEmpty { deadlocks.insert(state) }
      }
      level = found.flatMap(\.1).filter { met.insert($0).inserted }
    }
    for mode in Search.modes + [Search.SearchMode(usesReduction: true)] {
      var exploration = try Exploration(net.model(), options: mode.options)
      let result = await exploration.run()
      try #require(result.verdict == .complete)
      let found = result.deadlocks.firstStates.map { deadlock in
        let path = exploration.path(to: deadlock)
        let state = path.states[path.states.count - 1]
        return QueueNet.State(
          nodes: Array(state.prefix(net.nodes.count)),
          queues: net.nodes.indices.compactMap {
            exploration.model.contents(of: net.nodes.count + $0, in: state[net.nodes.count + $0])
          })
      }
      #expect(found.count == deadlocks.count)
      #expect(Set(found) == deadlocks)
      if mode.usesReduction { continue }
      #expect(result.stateCount == met.count)
      #expect(result.stepCount == steps)
    }
  }

  @Test("A search finds paths that use a vector added during the search")
  func lateVector() async throws {
    var model = ExplorationModel()
    let node = model.addComponent(stateCount: 3)
    let queue = model.addQueue(capacity: 2, contents: [1])
    var asks: [Int] = []
    for symbol in 1...2 {
      asks.append(
        try model.addVector([
          .table(node, [.unknown, .blocked, .blocked]), .queue(queue, .removeHead(symbol)),
        ]))
    }
    _ = try model.addVector([
      .table(node, [.blocked, .leads(to: 0), .blocked]), .queue(queue, .append(2)),
    ])
    var exploration = Exploration(model)
    var first: Int?
    var result: ExplorationResult?
    while result == nil {
      switch await exploration.advance() {
      case .progress: continue
      case .finished(let finished): result = finished
      case .demands(let demands):
        for demand in demands {
          try exploration.model.setCell(of: node, in: 0, for: demand.vector, to: .blocked)
          // The cell for the second symbol replaces the cell for the first one.
          if let first {
            try exploration.model.setCell(of: node, in: 0, for: first, to: .blocked)
          }
          let symbols: Set = demand.vector == asks[0] ? [1] : [1, 2]
          for symbol in symbols.sorted() {
            let vector = try exploration.model.addVector([
              .table(node, [.leads(to: symbol), .blocked, .blocked]),
              .queue(queue, .removeFirst(symbol, candidates: symbols)),
            ])
            if symbols.count == 1 { first = vector }
          }
        }
      }
    }
    let end = try #require(result?.deadlocks.firstStates.first)
    #expect(exploration.path(to: end).states.map { $0[node] } == [0, 1, 0, 2])
  }

  @Test("A step needs free capacity in a queue only at its start, and can then overfill the queue")
  func overshoot() async throws {
    var model = ExplorationModel()
    let queue = model.addQueue(capacity: 2)
    _ = try model.addVector([.queue(queue, .append(7, 8, 9))])
    var exploration = Exploration(model, options: Search.SearchMode().options)
    let result = await exploration.run()
    #expect(result.stateCount == 2)
    let full = try #require(result.deadlocks.firstStates.first)
    let state = try #require(exploration.path(to: full).states.last?[queue])
    #expect(exploration.model.contents(of: queue, in: state) == [7, 8, 9])
  }

  @Test("A search with large queue contents ends before it exceeds the memory limit")
  func largeContents() async throws {
    var model = ExplorationModel()
    let queue = model.addQueue(capacity: .max)
    _ = try model.addVector([.queue(queue, .append(1, 2, 3))])
    var options = ExplorationOptions()
    options.memoryLimit = 10_000_000
    var exploration = Exploration(model, options: options)
    let result = await exploration.run()
    #expect(result.verdict == .incomplete(.memory))
    #expect(result.peakByteCount < 11_000_000)
    #expect(result.stateCount > 100)
  }

  @Test("A search with an unbounded queue ends at the limit of local states", arguments: [1, 2])
  func unbounded(_ threads: Int) async throws {
    var model = ExplorationModel()
    let queue = model.addQueue(capacity: .max)
    _ = try model.addVector([.queue(queue, .append(1))])
    var options = ExplorationOptions()
    options.localStateLimit = 100
    options.threadCount = threads
    var exploration = Exploration(model, options: options)
    let result = await exploration.run()
    #expect(result.verdict == .incomplete(.localStates(component: queue)))
    #expect(result.deadlocks.count == 0)
  }
}
