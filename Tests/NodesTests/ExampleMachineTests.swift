import Nodes
import PipeRuntime
import Testing

@Suite("The machines of the examples")
struct ExampleMachineTests {
  /// Returns the JSON of the next state, the code of the refusal, or `ignored`.
  private func answer<Example: Machine>(
    _ machine: Example.Type, with parameters: Example.Parameters = Example.Parameters(),
    _ state: Example.State, _ event: Example.Event
  ) throws -> JSONValue {
    switch machine.stateMachine(parameters).reduce(state, event) {
    case .next(let state), .stays(let state): try JSONValue(encoding: state)
    case .ignored: "ignored"
    case .refused(let refusal): .string(refusal.code)
    case .suspended: "suspended"
    }
  }

  @Test("The door accepts persons while it is open, and closes unless it is full")
  func door() throws {
    var small = ElevatorDoor.Parameters()
    small.capacity = 2
    let full = try answer(
      ElevatorDoor.self, with: small, .open(persons: 2), .closeButtonWasPressed)
    #expect(full == "guard")
    let closing = try answer(
      ElevatorDoor.self, with: small, .open(persons: 1), .closeButtonWasPressed)
    #expect(closing == ["closing": ["persons": 1]])
    let late = try answer(
      ElevatorDoor.self, with: small, .closing(persons: 1), .personsHaveEntered(persons: 1))
    #expect(late == "noTransition")
    let again = try answer(
      ElevatorDoor.self, with: small, .closing(persons: 1), .openButtonWasPressed)
    #expect(again == ["open": ["persons": 1]])
    let empty = try answer(ElevatorDoor.self, with: small, .closed, .openButtonWasPressed)
    #expect(empty == ["open": ["persons": 0]])
  }

  @Test(
    "The motor moves to the next floor, from the last to the first, or to a called floor")
  func motor() throws {
    var low = ElevatorMotor.Parameters()
    low.floors = 3
    let up = try answer(ElevatorMotor.self, with: low, .idle(floor: 1), .start)
    #expect(up == ["moving": ["from": 1, "to": 2]])
    let around = try answer(ElevatorMotor.self, with: low, .idle(floor: 2), .start)
    #expect(around == ["moving": ["from": 2, "to": 0]])
    let called = try answer(ElevatorMotor.self, with: low, .idle(floor: 0), .call(floor: 2))
    #expect(called == ["moving": ["from": 0, "to": 2]])
    for floor in [-1, 0, 3] {
      let refused = try answer(ElevatorMotor.self, with: low, .idle(floor: 0), .call(floor: floor))
      #expect(refused == "guard", "floor \(floor)")
    }
    let busy = try answer(ElevatorMotor.self, with: low, .moving(from: 0, to: 1), .start)
    #expect(busy == "noTransition")
  }

  @Test("The washing machine goes through seven states, and only the first has no output")
  func washer() throws {
    let machine = WashingMachine.stateMachine(WashingMachine.Parameters())
    var state = machine.initial
    #expect(machine.output(state) == nil)
    var labels: [String] = []
    var event = WashingMachine.Event.start
    repeat {
      guard case .next(let next) = machine.reduce(state, event) else {
        Issue.record("\(state) does not go on")
        return
      }
      labels.append("\(state)")
      #expect((machine.output(next) != nil) == (next != .coldAndEmpty))
      (state, event) = (next, .timeIsUp)
    } while state != machine.initial && labels.count < 20
    #expect(
      labels == [
        "coldAndEmpty", "fullWithHotWater", "waterHeated", "drumAgitating", "pumping",
        "fullWithColdWater", "spinning",
      ])
    let early = try answer(WashingMachine.self, .coldAndEmpty, .timeIsUp)
    #expect(early == "noTransition")
  }

  @Test("The panel counts a finished program only if the panel has shown a step of the program")
  func panel() throws {
    let none = try answer(WasherPanel.self, .showing(step: 0, finished: 2), .finished)
    #expect(none == "ignored")
    let one = try answer(WasherPanel.self, .showing(step: 6, finished: 2), .finished)
    #expect(one == ["showing": ["step": 0, "finished": 3]])
  }

  @Test("A relay passes on every token, and the tally counts the tokens")
  func relay() throws {
    let first = try answer(Relay.self, .idle, .token(n: 7))
    #expect(first == ["passing": ["n": 7, "count": 1]])
    let next = try answer(Relay.self, .passing(n: 7, count: 1), .token(n: 8))
    #expect(next == ["passing": ["n": 8, "count": 2]])
    let counted = try answer(Tally.self, .counted(count: 1, last: 7), .token(n: 9))
    #expect(counted == ["counted": ["count": 2, "last": 9]])
  }

  @Test("Every machine of the example program has a description without errors")
  func descriptions() throws {
    #expect(ExampleProgram.machines.count == Set(ExampleProgram.machines.map { $0.name }).count)
    for machine in ExampleProgram.machines {
      let description = try describe(machine)
      #expect(description.error == nil)
      #expect(description.alphabet.count == description.events.count, "\(machine.name)")
      #expect(description.machine == machine.name)
    }
  }

  private func describe<Example: Machine>(_ machine: Example.Type) throws -> MachineDescription {
    try machine.describe(Example.Parameters())
  }
}
