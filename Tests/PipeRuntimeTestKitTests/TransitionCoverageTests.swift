import PipeRuntime
import Testing

import PipeRuntimeTestKit

@Suite("Coverage of transitions")
struct TransitionCoverageTests {
  let stateMachine = makeElevator()

  @Test("counts what assertions and scenarios take, and what guards refuse")
  func counts() {
    let coverage = TransitionCoverage(stateMachine)
    XCTStateMachine(stateMachine, coverage: coverage)
      .assertNoTransition(when: .open(persons: 15), on: .closeButtonWasPressed)
      .assertNoTransition(when: .closed, on: .doorHasLocked)
      .assert(steps: [
        .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
        .on(.personsHaveEntered(persons: 3), to: .open(persons: 6)),
      ])
    #expect(
      coverage.report == """
        1 of 3 transitions taken
          state    event                  taken  refused
          open     personsHaveEntered         2        0
          open     closeButtonWasPressed      0        1  not taken
          closing  doorHasLocked              0        0  not taken
        """)
    #expect(
      coverage.missing == [
        TransitionName("open", on: "closeButtonWasPressed"),
        TransitionName("closing", on: "doorHasLocked"),
      ])
  }

  @Test("is complete once every transition is taken or excepted")
  func complete() {
    let coverage = TransitionCoverage(stateMachine)
    coverage.record(
      from: .open(persons: 1), on: .personsHaveEntered(persons: 1), isTaken: true)
    coverage.record(from: .open(persons: 1), on: .closeButtonWasPressed, isTaken: true)
    coverage.assertComplete(except: [TransitionName("closing", on: "doorHasLocked")])
    coverage.record(from: .closing(persons: 1), on: .doorHasLocked, isTaken: true)
    coverage.assertComplete()
  }

  @Test("fails with what is missing, and with exceptions that are wrong")
  func incomplete() {
    let coverage = TransitionCoverage(stateMachine)
    coverage.record(
      from: .open(persons: 1), on: .personsHaveEntered(persons: 1), isTaken: true)
    coverage.record(from: .open(persons: 15), on: .closeButtonWasPressed, isTaken: false)
    let failures = FailureReporter.capture {
      coverage.assertComplete(except: [
        TransitionName("open", on: "personsHaveEntered"), TransitionName("shut", on: "knock"),
      ])
    }
    #expect(
      failures == [
        """
        2 of 3 transitions were not taken:
          open on closeButtonWasPressed (only refused)
          closing on doorHasLocked
          Assert each, or name those that need not be in 'except:'.
        'except:' names what is no transition of the machine:
          shut on knock
        'except:' names what was taken:
          open on personsHaveEntered
        1 of 3 transitions taken
          state    event                  taken  refused
          open     personsHaveEntered         1        0
          open     closeButtonWasPressed      0        1  not taken
          closing  doorHasLocked              0        0  not taken
        """
      ])
  }

  @Test("is fed by a running machine")
  func running() async {
    let coverage = TransitionCoverage(stateMachine)
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: { _ in Event.doorHasLocked })
      .recording(into: coverage)
    let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
    let recorder = StateRecorder(door)
    await door.send(.personsHaveEntered(persons: 12))
    await door.send(.closeButtonWasPressed)
    #expect(coverage.missing.count == 2)
    await door.send(.personsHaveEntered(persons: -12))
    await door.send(.closeButtonWasPressed)
    await recorder.wait(until: .closed)
    coverage.assertComplete()
    #expect(
      coverage.entries.map(\.taken) == [2, 1, 1] && coverage.entries.map(\.refused) == [0, 1, 0])
  }

  private enum Lift: DSLCompatible { case floor(Int), stuck }
  private enum Button: DSLCompatible { case up, down, alarm }

  @Test("learns of transitions that an 'if' hides when it sees the state")
  func hidden() {
    let lift = StateMachine<Lift, Button, Never>(initial: .stuck) {
      When(
        states: OneOf {
          Lift.floor; Lift.stuck
        }
      ) { state in
        if case .floor(let floor) = state {
          if floor > 0 { On(event: .down) { Transition(to: .floor(floor - 1)) } }
          On(event: .up) { Transition(to: .floor(floor + 1)) }
        }
        On(event: .alarm) { Transition(to: .stuck) }
      }
    }
    let coverage = TransitionCoverage(lift)
    #expect(coverage.missing == [TransitionName("stuck", on: "alarm")])
    #expect(
      coverage.report.hasSuffix("Not all transitions of floor can be listed before they are seen."))
    XCTStateMachine(lift, coverage: coverage)
      .assert(when: .floor(1), on: .up, transitionTo: .floor(2))
    #expect(
      coverage.missing == [
        TransitionName("floor", on: "down"), TransitionName("floor", on: "alarm"),
        TransitionName("stuck", on: "alarm"),
      ])
  }
}
