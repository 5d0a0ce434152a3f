import PipeModelChecker
import Testing

@Suite("Models with known answers")
struct KnownAnswerTests {
  struct Known: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let automata: Automata
    let states: Int
    let steps: Int
    /// The number of steps on a shortest path to each deadlock.
    var deadlocks: [Int] = []
  }

  static let models: [Known] = [
    Known(
      testDescription: "interlock", automata: KnownModels.interlock, states: 3, steps: 2,
      deadlocks: [2]),
    Known(
      testDescription: "left and right", automata: KnownModels.leftAndRight, states: 4, steps: 5),
    Known(
      testDescription: "bystander", automata: KnownModels.bystander, states: 2, steps: 3),
    Known(
      testDescription: "vending machine", automata: KnownModels.vendingMachine, states: 6,
      steps: 8),
    philosophers(3, 35, 66),
    philosophers(5, 392, 1_250),
    philosophers(7, 4_286, 19_159),
    philosophers(8, 14_158, 72_336),
    Known(
      testDescription: "5 philosophers that take both forks at once",
      automata: KnownModels.philosophersOfThreeParties(5),
      states: 11, steps: 30),
    Known(
      testDescription: "10 philosophers that take both forks at once",
      automata: KnownModels.philosophersOfThreeParties(10),
      states: 123, steps: 680),
    Known(
      testDescription: "Milner's scheduler with 6 cells", automata: KnownModels.scheduler(6),
      states: 576,
      steps: 2_016),
    Known(
      testDescription: "Milner's scheduler with 8 cells", automata: KnownModels.scheduler(8),
      states: 3_072,
      steps: 13_824),
  ]

  private static func philosophers(_ count: Int, _ states: Int, _ steps: Int) -> Known {
    Known(
      testDescription: "\(count) philosophers that take the left fork first",
      automata: KnownModels.philosophersLeftFirst(count),
      states: states, steps: steps, deadlocks: [count])
  }

  @Test(
    "A search of a known model finds the known states, steps and deadlocks", arguments: models,
    Search.modes)
  func answers(_ known: Known, _ mode: Search.SearchMode) async throws {
    let result = try await Search(known.automata, mode).result
    #expect(result.verdict == .complete)
    #expect(result.stateCount == known.states)
    #expect(result.stepCount == known.steps)
    #expect(result.deadlocks.count == known.deadlocks.count)
    #expect(result.deadlocks.firstStates.map(\.depth) == known.deadlocks)
  }

  @Test(
    "A reduced search finds the nearest deadlock of a known model at the same depth",
    arguments: models)
  func reduced(_ known: Known) async throws {
    let result = try await Search(known.automata, Search.SearchMode(usesReduction: true)).result
    #expect(result.isReduced)
    #expect(result.deadlocks.firstStates.map(\.depth) == known.deadlocks)
    #expect(result.stateCount <= known.states)
  }

  @Test("A reduced search finds the deadlock of twenty philosophers, with a hundred vectors")
  func manyVectors() async throws {
    let automata = KnownModels.philosophersLeftFirst(20)
    let search = try await Search(automata, Search.SearchMode(usesReduction: true))
    #expect(search.result.verdict == .complete)
    #expect(search.result.deadlocks.firstStates.map(\.depth) == [20])
  }

  @Test("A reduced search finds the deadlock of eight philosophers in under 5 % of the states")
  func reduction() async throws {
    let automata = KnownModels.philosophersLeftFirst(8)
    let result = try await Search(automata, Search.SearchMode(usesReduction: true)).result
    #expect(result.stateCount < 14_158 / 20)
  }

  @Test(
    "The shortest path to the deadlock is that each philosopher takes the left fork",
    arguments: Search.modes)
  func path(_ mode: Search.SearchMode) async throws {
    let search = try await Search(KnownModels.philosophersLeftFirst(5), mode)
    let deadlock = try #require(search.result.deadlocks.firstStates.first)
    let path = search.path(to: deadlock)
    #expect(Set(path.labels) == Set((0..<5).map { "get \($0) \($0)" }))
    #expect(path.labels.count == 5)
    #expect(path.states.count == 6)
  }
}
