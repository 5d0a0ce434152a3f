import PipeMachines
import Testing

@Suite("The elevator of the guide")
struct ElevatorTests {
  let machine = makeElevator()

  @Test(
    "Every state and event of the elevator has the result that the guide describes",
    arguments: [
      (.open(persons: 0), .personsHaveEntered(persons: 3), .next(.open(persons: 3))),
      (.open(persons: 4), .personsHaveEntered(persons: 3), .next(.open(persons: 7))),
      (.open(persons: 9), .closeButtonWasPressed, .next(.closing(persons: 9))),
      (.open(persons: 10), .closeButtonWasPressed, .refused(.guard)),
      (.open(persons: 1), .doorHasLocked, .refused(.noTransition)),
      (.closing(persons: 1), .doorHasLocked, .next(.closed)),
      (.closing(persons: 1), .closeButtonWasPressed, .refused(.noTransition)),
      (.closing(persons: 1), .personsHaveEntered(persons: 1), .refused(.noTransition)),
      (.closed, .personsHaveEntered(persons: 1), .refused(.noTransition)),
      (.closed, .doorHasLocked, .refused(.noTransition)),
    ] as [(State, Event, Reduction<State>)])
  func reduces(state: State, event: Event, answer: Reduction<State>) {
    #expect(machine.reduce(state, event) == answer)
  }

  @Test("Only the closing door has an output, and the output depends on the number of persons")
  func outputs() {
    #expect(machine.output(.open(persons: 3)) == nil)
    #expect(machine.output(.closing(persons: 5)) == .close(speed: 2))
    #expect(machine.output(.closing(persons: 6)) == .close(speed: 1))
    #expect(machine.output(.closed) == nil)
  }

  @Test("The elevator's door starts open and empty")
  func initial() { #expect(machine.initial == .open(persons: 0)) }

  @Test("The elevator's cases are listed with their JSON names")
  func listing() {
    #expect(
      machine.states == [
        .init(name: "open", fields: [.init(name: "persons", type: "Int")]),
        .init(name: "closing", fields: [.init(name: "persons", type: "Int")]),
        .init(name: "closed"),
      ])
    #expect(
      machine.events.map(\.name) == [
        "personsHaveEntered", "closeButtonWasPressed", "doorHasLocked",
      ])
    #expect(machine.outputs.map(\.name) == ["close"])
    #expect(machine.alphabet == ["personsHaveEntered", "closeButtonWasPressed", "doorHasLocked"])
  }
}
