import PipeModelChecker
import Testing

@Suite("Threads and large states")
struct ThreadTests {
  @Test("Each of several threads keeps its share of the states", arguments: [2, 3, 8])
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
    options.threads = threads
    var exploration = Exploration(model, options: options)
    let result = await exploration.run()
    #expect(result.verdict == .complete)
    #expect(exploration.statesByThread.count == threads)
    #expect(exploration.statesByThread.reduce(0, +) == result.states)
    for states in exploration.statesByThread {
      #expect(states > result.states / threads / 2)
      #expect(states < result.states * 2 / threads)
    }
  }

  @Test(
    "States of one word, of some and of many words have the same answers",
    arguments: [64, 40, 24, 20, 12, 9, 5])
  func widths(_ wordBits: Int) async throws {
    for threads in [1, 2] {
      let mode = Search.SearchMode(threads: threads, wordBits: wordBits)
      let result = try await Search(KnownModels.philosophersLeftFirst(8), mode).result
      #expect(result.states == 14_158)
      #expect(result.steps == 72_336)
      #expect(result.deadlocks.first.map(\.depth) == [8])
    }
  }

  @Test("A growing component takes no additional bits of the others")
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
    #expect(result?.states == 3001)
    // Twenty rows of 4096 local states each, for 21 vectors, would take several MiB.
    #expect((result?.peakByteCount ?? .max) < 1_000_000)
  }

  @Test("Fingerprints are said to save memory only if states are larger than one word")
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
