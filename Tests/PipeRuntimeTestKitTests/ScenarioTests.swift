import PipeRuntime
import Testing

import PipeRuntimeTestKit

@Suite("Scenarios of a machine")
struct ScenarioTests {
  let stateMachine = makeElevator()

  @Test("A scenario follows its events from state to state")
  func passes() {
    XCTStateMachine(stateMachine).assert(steps: [
      .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
      .refuses(.doorHasLocked),
      .on(.closeButtonWasPressed, to: .closing(persons: 3), execute: .close(speed: 2)),
      .refuses(.closeButtonWasPressed, because: .noTransition),
      .on(.doorHasLocked, to: .closed),
    ])
    .assert(
      from: .open(persons: 9),
      steps: [
        .on(.personsHaveEntered(persons: 1), to: .open(persons: 10)),
        .refuses(.closeButtonWasPressed, because: .guard),
      ])
  }

  @Test("A failed scenario shows the failed step among the others")
  func fails() {
    let failures = FailureReporter.capture {
      XCTStateMachine(stateMachine).assert(steps: [
        .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
        .on(.closeButtonWasPressed, to: .closing(persons: 3)),
        .refuses(.doorHasLocked),
        .on(.doorHasLocked, to: .closed),
      ])
    }
    #expect(
      failures == [
        """
        step 3 of 4: when closing(persons: 3), on doorHasLocked: there is a transition
          expected: no transition
          actual:   closed
          Remove On(event: doorHasLocked) from When(state: closing), add a Guard that refuses \
        the event, or expect closed.
          the scenario, from open(persons: 0):
              1. personsHaveEntered(persons: 3) -> open(persons: 3)
              2. closeButtonWasPressed          -> closing(persons: 3)
            > 3. doorHasLocked                  is refused
            - 4. doorHasLocked                  -> closed
        """
      ])
  }

  @Test("A failed scenario shows an output that differs")
  func output() {
    let failures = FailureReporter.capture {
      XCTStateMachine(stateMachine).assert(
        from: .open(persons: 6),
        steps: [
          .on(.closeButtonWasPressed, to: .closing(persons: 6), execute: .close(speed: 2))
        ])
    }
    #expect(
      failures == [
        """
        step 1 of 1: when closing(persons: 6): the output differs
          expected: close(speed: 2)
          actual:   close(speed: 1)
          at speed: expected 2, actual 1
          Change the Execute of When(state: closing), or expect close(speed: 1).
          the scenario, from open(persons: 6):
            > 1. closeButtonWasPressed -> closing(persons: 6), executing close(speed: 2)
        """
      ])
  }
}
