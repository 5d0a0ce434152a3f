import PipeRuntime
import TestTraits
import Testing

import PipeRuntimeTestKit

@Suite("The recorder of states", .stallLimit(.seconds(60)))
struct StateRecorderTests {
  private func makeDoor() -> AsyncStateMachineSequence<State, Event, Output> {
    AsyncStateMachineSequence(
      stateMachine: makeElevator(),
      runtime: Runtime().map(output: Output.close(speed:), to: { _ in Event.doorHasLocked }))
  }

  @Test("The recorder has every state from the initial state on, even states before the first read")
  func all() async {
    let door = makeDoor()
    let recorder = StateRecorder(door)
    await door.send(.personsHaveEntered(persons: 1))
    await door.send(.closeButtonWasPressed)
    let states = await recorder.states(count: 4)
    #expect(
      states.map { "\($0)" } == [
        "open(persons: 0)", "open(persons: 1)", "closing(persons: 1)", "closed",
      ])
  }

  @Test("The recorder waits for several states, cases or predicates, one after the other")
  func waits() async {
    let door = makeDoor()
    let recorder = StateRecorder(door)
    #expect(await recorder.wait(until: .open(persons: 0)).count == 1)
    await door.send(.personsHaveEntered(persons: 1))
    await door.send(.personsHaveEntered(persons: 2))
    await recorder.wait { if case .open(persons: 3) = $0 { true } else { false } }
    await door.send(.closeButtonWasPressed)
    #expect(await recorder.wait(until: OneOf { State.closing(persons:) }).count == 1)
    await recorder.wait(until: .closed)
  }

  @Test("The recorder fails on timeout with the states it has seen")
  func late() async {
    let door = makeDoor()
    let recorder = StateRecorder(door)
    await door.send(.personsHaveEntered(persons: 1))
    await recorder.wait(until: .open(persons: 0))
    await recorder.states(count: 2)
    let failures = await FailureReporter.capture {
      await recorder.wait(until: .closed, within: .milliseconds(10))
      await recorder.wait(
        until: OneOf {
          State.closing(persons:)
          State.closed
        }, within: .milliseconds(10))
    }
    #expect(
      failures.map(withoutStall) == [
        """
        no closed within 10 ms
          states recorded:
            0. open(persons: 0) (met by an earlier wait)
            1. open(persons: 1)
          Check that the event is accepted and the effect is mapped, or pass a longer 'within:'.
        """,
        """
        no closing or closed within 10 ms
          states recorded:
            0. open(persons: 0) (met by an earlier wait)
            1. open(persons: 1)
          Check that the event is accepted and the effect is mapped, or pass a longer 'within:'.
        """,
      ])
  }

  @Test("The recorder fails at once when the run has ended")
  func ended() async {
    let door = makeDoor()
    let recorder = StateRecorder(door)
    door.finish()
    let failures = await FailureReporter.capture { await recorder.states(count: 2) }
    #expect(
      failures == [
        """
        1 of 2 states were recorded before the run ended
          states recorded:
            0. open(persons: 0)
          Check what ends the run: finish(), or the end of the last reference to the sequence.
        """
      ])
  }
}
