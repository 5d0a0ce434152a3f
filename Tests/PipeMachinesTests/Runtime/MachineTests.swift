import PipeMachines
import Testing

private enum Display: Machine {
  enum State: MachineState, Equatable { case floor(Int), dark }
  enum Event: MachineEvent { case show(floor: Int), off }
  struct Parameters: MachineParameters { var first = 1 }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .floor(parameters.first)) {
      When(
        states: OneOf {
          State.floor; State.dark
        }
      ) {
        On(event: Event.show) { floor in Transition(to: .floor(floor)) }
      }
    }
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("updates"))
  }
}

private enum Door: Machine {
  enum State: MachineState { case open(persons: Int), closing(persons: Int), closed }
  enum Event: MachineEvent { case closeButtonWasPressed, doorHasLocked }
  enum Output: MachineOutput { case close(speed: Int) }

  static func stateMachine(_: NoParameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: .open(persons: 0)) {
      When(state: State.open(persons:)) { persons in
        On(event: .closeButtonWasPressed) { Transition(to: .closing(persons: persons)) }
      }
      When(state: State.closing(persons:)) { _ in
        Execute(output: .close(speed: 2))
      } transitions: { _ in
        On(event: .doorHasLocked) { Transition(to: .closed) }
      }
    }
  }

  static func runtime(_: NoParameters, _ ports: Ports) -> Runtime<State, Event, Output> {
    Runtime()
      .map(output: Output.close(speed:), to: { _ in .doorHasLocked })
      .connectAsSender(to: ports.pipe("arrivals"), when: State.closed, send: Display.Event.off)
      .connectAsSender(
        to: ports.pipe("persons"), when: State.closing(persons:), send: Display.Event.show(floor:))
  }
}

@Suite("A machine for topologies")
struct MachineTests {
  @Test("A machine describes its name, cases, alphabet and ports before it runs")
  func describes() throws {
    let door = try Door.describe(NoParameters())
    #expect(door.machine == "Door")
    #expect(door.initial == ["open": ["persons": 0]])
    #expect(door.states.map(\.name) == ["open", "closing", "closed"])
    #expect(door.alphabet == ["closeButtonWasPressed", "doorHasLocked"])
    #expect(door.outputs.map(\.name) == ["close"])
    #expect(door.outPorts.map(\.name) == ["arrivals", "persons"])
    #expect(door.outPorts.map(\.eventType) == ["Display.Event", "Display.Event"])
    // The events of a function are not known before it runs.
    #expect(door.outPorts.map(\.sentEvents) == [["off"], nil])
    #expect(door.inPorts.isEmpty)
  }

  @Test(
    "Parameters change a machine's description, and its alphabet omits events without transitions")
  func parameters() throws {
    let display = try Display.describe(.init(first: 7))
    #expect(display.initial == ["floor": ["_0": 7]])
    #expect(display.alphabet == ["show"])
    #expect(display.events.map(\.name) == ["show", "off"])
    #expect(display.outputs.isEmpty)
    #expect(display.inPorts.map(\.name) == ["updates"])
  }

  @Test("The descriptions of a pipe's sender and receiver name the same event type")
  func types() throws {
    let sent = try Door.describe(NoParameters()).outPorts[0]
    let received = try Display.describe(.init()).inPorts[0]
    #expect(sent.eventType == received.eventType)
    #expect(sent.events == received.events)
  }
}
