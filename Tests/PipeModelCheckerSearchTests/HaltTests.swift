import PipeModelChecker
import Testing

@Suite("States without steps")
struct HaltTests {
  @Test("A state without steps is not a deadlock if the state is declared as an end")
  func ends() async throws {
    var questions = ExplorationQuestions()
    questions.endObservations = [0]
    let declared = try await Search(
      KnownModels.interlock, Search.SearchMode(), questions, observations: [[0: [1], 1: [2]]])
    #expect(declared.result.deadlocks.count == 0)
    let other = try await Search(
      KnownModels.interlock, Search.SearchMode(), questions, observations: [[0: [1], 1: [1]]])
    #expect(other.result.deadlocks.count == 1)
  }

  @Test("A state that only outside events can leave is reported as stuck, and not as a deadlock")
  func stuck() async throws {
    var model = ExplorationModel()
    let door = model.addComponent(stateCount: 3)
    _ = try model.addVector(
      [.table(door, [.leads(to: 1), .blocked, .blocked])])
    _ = try model.addVector(
      [.table(door, [.blocked, .leads(to: 2), .leads(to: 0)])], isFromOutside: true)
    _ = try model.addObservation([door: [2]])
    var questions = ExplorationQuestions()
    questions.findsStuckStates = true
    var all = Exploration(model, questions)
    let found = await all.run()
    #expect(found.deadlocks.count == 0)
    #expect(found.stuckStates.firstStates.map(\.depth) == [1, 2])
    questions.restObservations = [0]
    var resting = Exploration(model, questions)
    let left = await resting.run()
    #expect(left.stuckStates.firstStates.map(\.depth) == [1])
  }

  @Test("Coverage reports vectors that are never enabled and local states that are never reached")
  func coverage() async throws {
    var model = ExplorationModel()
    let first = model.addComponent(stateCount: 3)
    let second = model.addComponent(stateCount: 2)
    _ = try model.addVector([.table(first, [.leads(to: 1), .blocked, .leads(to: 0)])])
    let never = try model.addVector([
      .table(first, [.leads(to: 2), .blocked, .blocked]),
      .table(second, [.blocked, .leads(to: 0)]),
    ])
    var questions = ExplorationQuestions()
    questions.findsCoverage = true
    var exploration = Exploration(model, questions)
    let result = await exploration.run()
    #expect(result.neverEnabledVectors == [never])
    #expect(result.unreachableStates == [[2], [1]])
  }
}
