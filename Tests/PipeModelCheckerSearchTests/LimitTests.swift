import PipeModelChecker
import Testing

@Suite("The limits of a search")
struct LimitTests {
  private static let philosophers = KnownModels.philosophersLeftFirst(8)

  private func search(
    threads: Int = 1, storage: StateStorage = .exact, wordBits: Int = 64,
    _ change: (inout ExplorationOptions) -> Void
  ) async throws -> ExplorationResult {
    var options = ExplorationOptions()
    options.threadCount = threads
    options.storage = storage
    options.wordBits = wordBits
    change(&options)
    var questions = ExplorationQuestions()
    questions.findsCoverage = true
    questions.alwaysPossibleObservations = [0]
    var model = try Self.philosophers.model().model
    _ = try model.addObservation([0: [2]])
    var exploration = Exploration(model, questions, options: options)
    return await exploration.run()
  }

  private func expectNothingIsAbsent(_ result: ExplorationResult) {
    #expect(result.neverEnabledVectors == nil)
    #expect(result.unreachableStates == nil)
    guard case .undecided = result.possibilities[0] else {
      Issue.record("decided: \(result.possibilities)")
      return
    }
  }

  @Test("A search ends when it has reached its limit of states", arguments: [1, 2])
  func states(_ threads: Int) async throws {
    let result = try await search(threads: threads) { $0.stateLimit = 8000 }
    #expect(result.verdict == .incomplete(.states))
    #expect(result.stateCount > 8000)
    #expect(result.stateCount < 14_158)
    #expect(result.deadlocks.firstStates.map(\.depth) == [8])
    expectNothingIsAbsent(result)
  }

  @Test("A search ends at its time limit")
  func time() async throws {
    let result = try await search { $0.timeLimit = .zero }
    #expect(result.verdict == .incomplete(.time))
    #expect(result.stateCount == 1)
    expectNothingIsAbsent(result)
  }

  struct TightLimits: Sendable {
    let storage: StateStorage
    let wordBits: Int
    let memory: Int
  }

  static let tight = [
    TightLimits(storage: .exact, wordBits: 64, memory: 200_000),
    TightLimits(storage: .exact, wordBits: 20, memory: 300_000),
    TightLimits(storage: .fingerprints(seed: 1), wordBits: 64, memory: 200_000),
    TightLimits(storage: .fingerprints(seed: 1), wordBits: 7, memory: 200_000),
  ]

  @Test("A search ends before it exceeds its memory limit", arguments: tight)
  func memory(_ tight: TightLimits) async throws {
    let result = try await search(storage: tight.storage, wordBits: tight.wordBits) {
      $0.memoryLimit = tight.memory
    }
    #expect(result.verdict == .incomplete(.memory))
    #expect(result.stateCount > 1000)
    #expect(result.stateCount < 14_158)
    expectNothingIsAbsent(result)
  }

  @Test(
    "An 'always_possible' property is undecided if the graph of states exceeds the memory limit")
  func graph() async throws {
    let whole = try await search { _ in }
    guard case .lost(let state) = whole.possibilities[0] else {
      Issue.record("\(whole.possibilities)")
      return
    }
    #expect(state.depth == 8)
    let result = try await search { $0.memoryLimit = whole.peakByteCount - 1 }
    #expect(result.verdict == .complete)
    #expect(result.neverEnabledVectors == [])
    guard case .undecided = result.possibilities[0] else {
      Issue.record("\(result.possibilities)")
      return
    }
  }

  @Test("A search ends when its task is cancelled")
  func cancellation() async throws {
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await search { _ in }
    }
    let result = try await task.value
    #expect(result.verdict == .incomplete(.cancelled))
  }

  @Test("A search can be stopped at its first finding")
  func firstFinding() async throws {
    var exploration = try Exploration(Self.philosophers.model().model)
    while exploration.progress.findingCount == 0 {
      guard case .progress = await exploration.advance() else {
        Issue.record("nothing was found")
        return
      }
    }
    let result = exploration.stop()
    #expect(result.verdict == .incomplete(.stopped))
    #expect(result.deadlocks.firstStates.map(\.depth) == [8])
    #expect(result.depth == 8)
  }

  @Test("The result of a search with fingerprints has the probability that a state was missed")
  func omission() async throws {
    let exact = try await search { _ in }
    #expect(exact.omissionProbability == nil)
    let result = try await search(storage: .fingerprints(seed: 1)) { _ in }
    let probability = try #require(result.omissionProbability)
    #expect(probability == 14_158.0 * 14_157.0 / 0x1p65)
  }
}
