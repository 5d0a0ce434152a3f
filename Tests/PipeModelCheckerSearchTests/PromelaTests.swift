import PipeModelChecker
import Testing

@Suite("A model as Promela")
struct PromelaTests {
  @Test("The Promela model has a variable for each component and an option for each vector")
  func text() throws {
    var model = ExplorationModel()
    let door = model.addComponent(stateCount: 3, initial: 1)
    let queue = model.addQueue(capacity: 1)
    _ = try model.addVector([
      .table(door, [.leads(to: 1), .leads(to: 0), .blocked]), .queue(queue, .append(5)),
    ])
    _ = try model.addVector([.table(door, [.leads(to: 0), .unknown])])
    let text = model.promela(componentNames: ["door"], vectorNames: ["open */ do"])
    #expect(
      text == """
        byte door = 1;
        byte c1 = 0;

        active proctype product() {
          do
          :: d_step { /* open __ do */
               (door == 0 || door == 1) && false ->
               if :: door == 0 -> door = 1 :: door == 1 -> door = 0 fi;
               skip }
          :: d_step { /* 1 */
               (door == 0) ->
               skip }
          od
        }

        """)
  }

  @Test("The Promela model contains the queue contents that a search has found")
  func queues() async throws {
    var model = ExplorationModel()
    let queue = model.addQueue(capacity: 1)
    _ = try model.addVector([.queue(queue, .append(5))])
    _ = try model.addVector([.queue(queue, .removeHead(5))])
    var exploration = Exploration(model)
    _ = await exploration.run()
    let text = exploration.model.promela()
    #expect(text.contains("if :: c0 == 0 -> c0 = 1 fi;"))
    #expect(text.contains("if :: c0 == 1 -> c0 = 0 fi;"))
  }
}
