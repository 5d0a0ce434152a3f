import PipeModelChecker
import Testing

@Suite("A model that grows during its search")
struct GrowthTests {
  @Test(
    "A search that extends its model finds all states, and requests each local step once",
    arguments: 0..<500 as Range)
  func agreement(_ seed: Int) async throws {
    let net = Automata.random(UInt64(seed))
    let answer = net.searchNaively()
    for mode in Search.modes {
      var asked: Set<[Int]> = []
      var exploration = try Exploration(net.emptyModel(), options: mode.options)
      let result = try await search(&exploration) { demand in
        #expect(asked.insert([demand.component, demand.localState, demand.vector]).inserted)
        #expect(answer.states.contains { $0[demand.component] == demand.localState })
        return net.cell(of: demand.component, in: demand.localState, for: demand.vector)
      }
      try #require(result.verdict == .complete)
      #expect(result.stateCount == answer.states.count)
      #expect(result.stepCount == answer.stepCount)
      #expect(result.deadlocks.count == answer.deadlocks.count)
      for deadlock in result.deadlocks.firstStates {
        let path = exploration.path(to: deadlock)
        #expect(answer.deadlocks[path.states[path.states.count - 1]] == deadlock.depth)
      }
    }
  }

  @Test(
    "A reduced search that extends its model finds every deadlock at a full search's depth",
    arguments: 0..<500 as Range)
  func reduction(_ seed: Int) async throws {
    let net = Automata.random(UInt64(seed))
    for threads in [1, 2] {
      let mode = Search.SearchMode(threads: threads, usesReduction: true)
      var exploration = try Exploration(net.emptyModel(), options: mode.options)
      let result = try await search(&exploration) {
        net.cell(of: $0.component, in: $0.localState, for: $0.vector)
      }
      var found: [[Int]: Int] = [:]
      for deadlock in result.deadlocks.firstStates {
        let states = exploration.path(to: deadlock).states
        found[states[states.count - 1]] = deadlock.depth
      }
      #expect(found == net.searchNaively().deadlocks)
    }
  }

  @Test("Vectors for new local states can be added to a model during its search")
  func newVectors() async throws {
    var model = ExplorationModel()
    let counter = model.addComponent()
    let queue = model.addQueue(capacity: 1)
    // Each step of the counter sends an event. The vector that removes the event from the queue is
    // added during the search.
    _ = try model.addVector([.table(counter, []), .queue(queue, .append(0))])
    var exploration = Exploration(model)
    let result = try await search(&exploration) { demand in
      #expect(demand.component == counter)
      let next = demand.localState + 1
      guard next < 20 else { return .blocked }
      return .leads(to: next)
    } then: { model, demand in
      guard demand.vector == 0 else { return }
      _ = try model.addVector([.queue(queue, .removeHead(0))])
    }
    #expect(result.verdict == .complete)
    #expect(result.depth == 38)
    #expect(result.stateCount == 39)
  }

  /// Searches to the end, and fills each demanded cell.
  private func search(
    _ exploration: inout Exploration,
    filling cell: (Exploration.Demand) -> ExplorationModel.Cell,
    then grow: (inout ExplorationModel, Exploration.Demand) throws -> Void = { _, _ in }
  ) async throws -> ExplorationResult {
    while true {
      switch await exploration.advance() {
      case .progress: continue
      case .demands(let demands):
        for demand in demands {
          #expect(demand.state.depth <= exploration.progress.depth)
          try exploration.model.setCell(
            of: demand.component, in: demand.localState, for: demand.vector, to: cell(demand))
          try grow(&exploration.model, demand)
        }
      case .finished(let result): return result
      }
    }
  }
}
