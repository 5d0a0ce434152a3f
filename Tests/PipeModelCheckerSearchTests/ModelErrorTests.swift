import PipeModelChecker
import Testing

@Suite("Errors of a model")
struct ModelErrorTests {
  private let cells: [ExplorationModel.Cell] = [.leads(to: 0)]

  @Test("A model refuses a vector with an unknown component, a repeated component or a wrong role")
  func vectors() throws {
    var model = ExplorationModel()
    let table = model.addComponent()
    let queue = model.addQueue(capacity: 1)
    #expect(throws: ExplorationModelError.unknownComponent(2)) {
      try model.addVector([.table(2, cells)])
    }
    #expect(throws: ExplorationModelError.duplicateComponent(table)) {
      try model.addVector([.table(table, cells), .table(table, cells)])
    }
    #expect(throws: ExplorationModelError.roleKindMismatch(queue)) {
      try model.addVector([.table(queue, cells)])
    }
    #expect(throws: ExplorationModelError.roleKindMismatch(table)) {
      try model.addVector([.queue(table, .removeHead(1))])
    }
    #expect(model.vectorCount == 0)
  }

  @Test("A model refuses a local step or an observation of unknown components or states")
  func strangers() throws {
    var model = ExplorationModel()
    let table = model.addComponent()
    let other = model.addComponent()
    let vector = try model.addVector([.table(table, [])])
    #expect(throws: ExplorationModelError.unknownComponent(7)) {
      try model.setCell(of: 7, in: 0, for: vector, to: .blocked)
    }
    #expect(throws: ExplorationModelError.roleKindMismatch(other)) {
      try model.setCell(of: other, in: 0, for: vector, to: .blocked)
    }
    #expect(throws: ExplorationModelError.unknownComponent(7)) {
      try model.addObservation([7: [0]])
    }
  }
}
