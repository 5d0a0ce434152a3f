import PipeModelChecker
import Testing

@Suite("Searches with several threads and with large states")
struct ThreadTests {
  @Test("Each thread of a search stores a part of the states", arguments: [2, 3, 8])
  func shares(_ threads: Int) async throws {
    let count = 4000
    var model = ExplorationModel()
    let component = model.addComponent(stateCount: count + 1)
    for state in 1...count {
      var cells = [ExplorationModel.Cell](repeating: .blocked, count: count + 1)
      cells[0] = .leads(to: state)
      if state % 64 == 1 { _ = try model.addVector([.table(component, cells)]) }
    }
    // Each second step leads to the next state, so that all states are reached.
    _ = try model.addVector([
      .table(
        component, (0...count).map { $0 % 64 == 0 || $0 == count ? .blocked : .leads(to: $0 + 1) })
    ])
    var options = ExplorationOptions()
    options.threadCount = threads
    var exploration = Exploration(model, options: options)
    let result = await exploration.run()
    #expect(result.verdict == .complete)
    #expect(exploration.statesByThread.count == threads)
    #expect(exploration.statesByThread.reduce(0, +) == result.stateCount)
    for states in exploration.statesByThread {
      #expect(states > result.stateCount / threads / 2)
      #expect(states < result.stateCount * 2 / threads)
    }
  }

  @Test(
    "A search has the same results for states of one word, a few words and many words",
    arguments: [64, 40, 24, 20, 12, 9, 5])
  func widths(_ wordBits: Int) async throws {
    for threads in [1, 2] {
      let mode = Search.SearchMode(threads: threads, wordBits: wordBits)
      let result = try await Search(KnownModels.philosophersLeftFirst(8), mode).result
      #expect(result.stateCount == 14_158)
      #expect(result.stepCount == 72_336)
      #expect(result.deadlocks.firstStates.map(\.depth) == [8])
    }
  }

  @Test("If one component's states grow, the other components need no more bits")
  func growth() async throws {
    var model = ExplorationModel()
    let counter = model.addComponent()
    for _ in 0..<20 { _ = model.addQueue(capacity: 1) }
    _ = try model.addVector([.table(counter, [])])
    for queue in 1...20 {
      _ = try model.addVector([.table(counter, [.blocked]), .queue(queue, .append(0))])
    }
    var exploration = Exploration(model)
    var result: ExplorationResult?
    while result == nil {
      switch await exploration.advance() {
      case .progress: continue
      case .finished(let finished): result = finished
      case .demands(let demands):
        for demand in demands {
          let isCount = demand.vector == 0 && demand.localState < 3000
          try exploration.model.setCell(
            of: counter, in: demand.localState, for: demand.vector,
            to: isCount ? .leads(to: demand.localState + 1) : .blocked)
        }
      }
    }
    #expect(result?.stateCount == 3001)
    // Twenty rows of 4096 local states each, for 21 vectors, would take several MiB.
    #expect((result?.peakByteCount ?? .max) < 1_000_000)
  }

  @Test("A search suggests fingerprints only if states are larger than one word")
  func hashing() async throws {
    let small = try await Search(KnownModels.philosophersLeftFirst(8), Search.SearchMode()).result
    #expect(!small.fingerprintsSaveMemory)
    let large = try await Search(
      KnownModels.philosophersLeftFirst(8), Search.SearchMode(wordBits: 9)
    ).result
    #expect(large.fingerprintsSaveMemory)
    let hashed = try await Search(
      KnownModels.philosophersLeftFirst(8), Search.SearchMode(hasFingerprints: true, wordBits: 9)
    ).result
    #expect(!hashed.fingerprintsSaveMemory)
  }
}
