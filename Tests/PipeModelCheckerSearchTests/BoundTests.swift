import PipeModelChecker
import Testing

@Suite("The capacity of queues")
struct BoundTests {
  /// A searched net, with an observation for each queue that holds where the queue is full.
  private struct BoundedSearch: ~Copyable {
    let net: QueueNet
    let exploration: Exploration
    let result: ExplorationResult

    /// - Parameter wanted: A local state of the first node that should always remain possible.
    init(_ net: QueueNet, _ mode: Search.SearchMode, wanted: Int? = nil, states: Int = 20_000)
      async throws
    {
      var model = try net.model()
      var questions = ExplorationQuestions()
      for queue in net.nodes.indices {
        questions.boundObservations.insert(
          try model.addObservation(ofFullQueue: net.nodes.count + queue))
      }
      questions.endObservations = questions.boundObservations
      if let wanted {
        questions.alwaysPossibleObservations.insert(try model.addObservation([0: [wanted]]))
      }
      var options = mode.options
      options.stateLimit = states
      var exploration = Exploration(model, questions, options: options)
      result = await exploration.run()
      self.net = net
      self.exploration = exploration
    }

    /// The states that were reported as deadlocks.
    var deadlocks: Set<QueueNet.State> {
      Set(
        result.deadlocks.firstStates.map { deadlock in
          let path = exploration.path(to: deadlock)
          let state = path.states[path.states.count - 1]
          return QueueNet.State(
            nodes: Array(state.prefix(net.nodes.count)),
            queues: net.nodes.indices.compactMap {
              exploration.model.contents(of: net.nodes.count + $0, in: state[net.nodes.count + $0])
            })
        })
    }

    var isLost: Bool {
      result.possibilities.values.contains { if case .lost = $0 { true } else { false } }
    }
  }

  private static let modes =
    Search.modes + [
      Search.SearchMode(usesReduction: true), Search.SearchMode(threads: 2, usesReduction: true),
    ]

  @Test(
    "A larger queue capacity changes no result of a search in which no queue was full",
    arguments: 0..<500 as Range)
  func independent(_ seed: Int) async throws {
    for capacity in 1...4 {
      var net = QueueNet.random(UInt64(seed))
      net.capacity = capacity
      var larger = net
      larger.capacity = 3 * capacity
      for mode in Self.modes {
        let small = try await BoundedSearch(net, mode)
        guard small.result.verdict == .complete, small.result.reachedBounds.isEmpty else {
          continue
        }
        let large = try await BoundedSearch(larger, mode)
        let verdict = large.result.verdict
        try #require(verdict == .complete)
        let (result, deadlocks) = (large.result, large.deadlocks)
        let (smaller, known) = (small.result, small.deadlocks)
        #expect(result.stateCount == smaller.stateCount)
        #expect(result.stepCount == smaller.stepCount)
        #expect(result.reachedBounds.isEmpty)
        #expect(deadlocks == known)
      }
    }
  }

  @Test(
    "A deadlock that a search finds is also a deadlock with larger queues",
    arguments: 0..<500 as Range)
  func deadlocks(_ seed: Int) async throws {
    let net = QueueNet.random(UInt64(seed))
    var larger = net
    larger.capacity = 100
    for mode in Self.modes {
      let small = try await BoundedSearch(net, mode)
      for state in small.deadlocks { #expect(larger.steps(from: state).isEmpty) }
    }
  }

  @Test(
    "A combination that a search reports as unreachable is unreachable with larger queues too",
    arguments: 0..<500 as Range)
  func lost(_ seed: Int) async throws {
    for capacity in 1...3 {
      var net = QueueNet.random(UInt64(seed))
      net.capacity = capacity
      var larger = net
      larger.capacity = capacity + 2
      let mode = Search.SearchMode()
      let small = try await BoundedSearch(net, mode, wanted: 1)
      guard small.result.verdict == .complete, small.isLost else { continue }
      let large = try await BoundedSearch(larger, mode, wanted: 1)
      let isLost = large.isLost
      if large.result.verdict == .complete { #expect(isLost) }
    }
  }
}
