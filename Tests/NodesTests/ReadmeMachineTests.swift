import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import Testing

@Suite("The assertions that README.md shows")
struct ReadmeMachineTests {
  @Test("hold")
  func door() {
    XCTStateMachine(ElevatorDoor.stateMachine(.init()))
      .assert(
        when: .open(persons: 5), on: .closeButtonWasPressed, transitionTo: .closing(persons: 5)
      )
      .assertNoTransition(when: .open(persons: 10), on: .closeButtonWasPressed, because: .guard)
      .assert(when: .closing(persons: 1), execute: .close(speed: 2))
  }
}
