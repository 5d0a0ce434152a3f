import PipeRuntime
import PipeRuntimeTestKit
import Testing

private enum Light: DSLCompatible { case red, green(cars: Int), broken(code: Int), off }
private enum Signal: DSLCompatible { case timeIsUp, carPassed, fault(code: Int), reset, powerCut }
private enum Lamp: DSLCompatible { case wait(seconds: Int), alarm }
private typealias Crossing = StateMachine<Light, Signal, Lamp>

@Suite("Documented language for state machines")
struct MachineLanguage {
  @Test("A 'When' describes a state by its value or its constructor")
  func when() {
    let machine = Crossing(initial: .red) {
      // docs: begin
      When(state: .red) {
        Execute(output: .wait(seconds: 20))
      } transitions: {
        On(event: .timeIsUp) { Transition(to: .green(cars: 0)) }
      }

      When(state: Light.green(cars:)) { cars in
        Execute(output: .wait(seconds: cars > 10 ? 60 : 30))
      } transitions: { cars in
        On(event: .timeIsUp) { Transition(to: .red) }
        On(event: .carPassed) { Transition(to: .green(cars: cars + 1)) }
      }
      // docs: end
    }
    XCTStateMachine(machine)
      .assert(when: .red, execute: .wait(seconds: 20))
      .assert(when: .green(cars: 11), execute: .wait(seconds: 60))
      .assert(when: .green(cars: 2), on: .carPassed, transitionTo: .green(cars: 3))
      .assertNoTransition(when: .red, on: .carPassed)
  }

  @Test("A 'OneOf' describes several states or events at once")
  func oneOf() {
    let machine = Crossing(initial: .red) {
      // docs: begin
      When(
        states: OneOf {
          Light.red
          Light.green(cars:)
        }
      ) { _ in
        Execute.noOutput
      } transitions: {
        On(event: Signal.fault(code:)) { code in Transition(to: .broken(code: code)) }
        On(
          events: OneOf {
            Signal.powerCut
            Signal.reset
          }
        ) { Transition(to: .off) }
      }
      // docs: end
    }
    XCTStateMachine(machine)
      .assert(when: .red, .green(cars: 1), on: .fault(code: 7), transitionTo: .broken(code: 7))
      .assert(when: .green(cars: 1), on: .reset, transitionTo: .off)
      .assertNoTransition(when: .off, on: .reset)
  }

  @Test("Guards choose among transitions in the order written")
  func guards() {
    let machine = Crossing(initial: .red) {
      // docs: begin
      When(state: Light.broken(code:)) { code in
        if code > 100 { Execute(output: .alarm) } else { Execute.noOutput }
      } transitions: { code in
        On(event: .reset) {
          Guard(predicate: code <= 100)
        } transition: {
          Transition(to: .red)
        }
        On(event: .reset) {
          Guard(predicate: code < 1000)
        } transition: {
          Transition(to: .off)
        }
      }
      // docs: end
    }
    XCTStateMachine(machine)
      .assert(when: .broken(code: 7), on: .reset, transitionTo: .red)
      .assert(when: .broken(code: 700), on: .reset, transitionTo: .off)
      .assertNoTransition(when: .broken(code: 7000), on: .reset, because: .guard)
      .assertNoOutput(when: .broken(code: 7))
      .assert(when: .broken(code: 700), execute: .alarm)
  }

  @Test("Several 'When's for one state combine their transitions, and overlaps are listed")
  func overlap() {
    // docs: begin
    let machine = StateMachine<Light, Signal, Lamp>(initial: .red) {
      When(state: .red) {
        Execute(output: .wait(seconds: 20))
      } transitions: {
        On(event: .timeIsUp) { Transition(to: .green(cars: 0)) }
      }
      When(
        states: OneOf {
          Light.red
          Light.green(cars:)
        }
      ) { _ in
        Execute(output: .alarm)
      } transitions: {
        On(event: .timeIsUp) { Transition(to: .off) }
        On(event: .powerCut) { Transition(to: .off) }
      }
    }
    // docs: end
    // docs: begin
    for overlap in machine.overlaps() { print(overlap) }
    // state 'red': When 2 adds to When 1
    // state 'red', event 'timeIsUp': On 1 of When 2 is hidden by On 1 of When 1, which has no guard
    // docs: end
    #expect(
      machine.overlaps().map(\.description) == [
        "state 'red': When 2 adds to When 1",
        "state 'red', event 'timeIsUp': On 1 of When 2 is hidden by On 1 of When 1, which has no "
          + "guard",
      ])
    XCTStateMachine(machine)
      .assert(when: .red, execute: .wait(seconds: 20))
      .assert(when: .red, on: .timeIsUp, transitionTo: .green(cars: 0))
      .assert(when: .red, on: .powerCut, transitionTo: .off)
      .assert(when: .green(cars: 0), execute: .alarm)
      .assert(when: .green(cars: 0), on: .timeIsUp, transitionTo: .off)
  }

  @Test("Transitions can have names and be kept in a list")
  func values() {
    // docs: begin
    let onPowerCut = On(event: Signal.powerCut) { Transition(to: Light.off) }
    let onFault = On(event: Signal.fault(code:)) { Transition(to: Light.broken(code: $0)) }
    let always = [onPowerCut, onFault]

    let machine = StateMachine<Light, Signal, Lamp>(initial: .red) {
      When(state: .red) {
        Execute(output: .wait(seconds: 20))
      } transitions: {
        On(event: .timeIsUp) { Transition(to: .green(cars: 0)) }
        always
      }
      When(state: .off) {
        Execute.noOutput
      } transitions: {
        onFault
      }
    }
    // docs: end
    XCTStateMachine(machine)
      .assert(when: .red, on: .timeIsUp, transitionTo: .green(cars: 0))
      .assert(when: .red, on: .powerCut, transitionTo: .off)
      .assert(when: .red, .off, on: .fault(code: 3), transitionTo: .broken(code: 3))
      .assertNoTransition(when: .off, on: .powerCut)
  }

  @Test("An internal transition enters no state, and an ignored event changes nothing")
  func stays() {
    let machine = Crossing(initial: .red) {
      // docs: begin
      When(state: Light.green(cars:)) { cars in
        Execute(output: .wait(seconds: 30))
      } transitions: { cars in
        On(event: .carPassed) { Stay { .green(cars: cars + 1) } }
        On(event: .timeIsUp) { Transition(to: .red) }
        Ignore(event: .reset)
      }
      // docs: end
    }
    XCTStateMachine(machine)
      .assert(when: .green(cars: 2), on: .carPassed, staysIn: .green(cars: 3))
      .assertIgnored(when: .green(cars: 2), on: .reset)
  }

  @Test("A transition can suspend")
  func suspends() async {
    @Sendable func repair(_ code: Int) async -> Bool { code < 100 }
    let machine = Crossing(initial: .red) {
      // docs: begin
      When(state: Light.broken(code:)) { _ in
        Execute.noOutput
      } transitions: { code in
        On(event: .reset) {
          await repair(code) ? Transition(to: .red) : Transition(to: .off)
        }
      }
      // docs: end
    }
    await XCTStateMachine(machine)
      .assertEventually(when: .broken(code: 7), on: .reset, transitionTo: .red)
  }

  @Test("A machine computes a step without being run")
  func asks() async throws {
    // docs: begin
    switch stateMachine.reduce(.open(persons: 12), .closeButtonWasPressed) {
    case .next(let state): print("leads to \(state)")
    case .stays(let state): print("changes the values of its state: \(state)")
    case .ignored: print("changes nothing")
    case .refused(let refusal): print("refused: \(refusal)")  // guard
    case .suspended(let transition): print("leads, in a while, to \(try await transition())")
    }
    // docs: end
    #expect("\(stateMachine.reduce(.open(persons: 12), .closeButtonWasPressed))".contains("guard"))
  }
}
