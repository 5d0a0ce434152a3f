import PipeRuntime
import PipeRuntimeTestKit
import Testing

// docs: begin
enum Thermostat: Machine {
  enum State: MachineState { case idle, heating(since: Int) }
  enum Event: MachineEvent { case measured(degrees: Int) }
  struct Parameters: MachineParameters { var target = 21 }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        On(event: Event.measured(degrees:)) { degrees in
          Guard(predicate: degrees < parameters.target)
        } transition: { degrees in
          Transition(to: State.heating(since: degrees))
        }
      }
      When(state: State.heating(since:)) { _ in
        On(event: Event.measured(degrees:)) { degrees in
          Guard(predicate: degrees >= parameters.target)
        } transition: { _ in
          Transition(to: State.idle)
        }
      }
    }
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("measurements"))
      .connectAsSender(
        to: ports.pipe("demand"), when: State.heating(since:), send: Boiler.Event.start
      )
      .connectAsSender(to: ports.pipe("demand"), when: State.idle, send: Boiler.Event.stop)
  }
}
// docs: end

enum Boiler: Machine {
  enum State: MachineState { case off, on }
  enum Event: MachineEvent { case start, stop }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.off) {
      When(state: State.off) { On(event: Event.start) { Transition(to: State.on) } }
      When(state: State.on) { On(event: Event.stop) { Transition(to: State.off) } }
    }
  }

  static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("orders"))
  }
}

// docs: begin
struct Heating: NodeProgram {
  static let machines: [any Machine.Type] = [Thermostat.self, Boiler.self]
}
// docs: end

@Suite("Documented nodes")
struct NodesTests {
  @Test("A machine of a node is tested like any other machine")
  func thermostat() {
    XCTStateMachine(Thermostat.stateMachine(Thermostat.Parameters()))
      .assert(when: .idle, on: .measured(degrees: 20), transitionTo: .heating(since: 20))
      .assertNoTransition(when: .idle, on: .measured(degrees: 21), because: .guard)
      .assert(when: .heating(since: 20), on: .measured(degrees: 21), transitionTo: .idle)
    #expect(Heating.machines.count == 2)
  }
}
