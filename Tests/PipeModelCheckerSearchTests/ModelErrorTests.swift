import PipeModelChecker
import Testing

@Suite("A model does not take")
struct ModelErrorTests {
  private let cells: [ExplorationModel.Cell] = [.leads(to: 0)]

  @Test("a vector with a component that is not there, has two roles, or is of another kind")
  func vectors() throws {
    var model = ExplorationModel()
    let table = model.addComponent()
    let queue = model.addQueue(capacity: 1)
    #expect(throws: ExplorationModelError.unknownComponent(2)) {
      try model.addVector([.table(2, cells)])
    }
    #expect(throws: ExplorationModelError.componentTwice(table)) {
      try model.addVector([.table(table, cells), .table(table, cells)])
    }
    #expect(throws: ExplorationModelError.roleOfAnotherKind(queue)) {
      try model.addVector([.table(queue, cells)])
    }
    #expect(throws: ExplorationModelError.roleOfAnotherKind(table)) {
      try model.addVector([.queue(table, .take(1))])
    }
    #expect(model.vectorCount == 0)
  }

  @Test("a cell or an observation of what is not there")
  func strangers() throws {
    var model = ExplorationModel()
    let table = model.addComponent()
    let other = model.addComponent()
    let vector = try model.addVector([.table(table, [])])
    #expect(throws: ExplorationModelError.unknownComponent(7)) {
      try model.setCell(of: 7, in: 0, for: vector, to: .blocked)
    }
    #expect(throws: ExplorationModelError.roleOfAnotherKind(other)) {
      try model.setCell(of: other, in: 0, for: vector, to: .blocked)
    }
    #expect(throws: ExplorationModelError.unknownComponent(7)) {
      try model.addObservation([7: [0]])
    }
  }
}
