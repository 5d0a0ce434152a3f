import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Documented test kit", .stallLimit(.seconds(60)))
struct TestingGuide {
  @Test("The documented assertions on a machine hold")
  func assertions() {
    // docs: begin
    XCTStateMachine(stateMachine)
      .assertNoOutput(when: .open(persons: 0), .closed)
      .assert(
        when: .open(persons: 5),
        on: .closeButtonWasPressed,
        transitionTo: .closing(persons: 5)
      )
      .assertNoTransition(when: .open(persons: 15), on: .closeButtonWasPressed, because: .guard)
      .assert(when: .closing(persons: 1), execute: .close(speed: 2))
    // docs: end
  }

  @Test("The documented scenario holds")
  func scenario() {
    // docs: begin
    XCTStateMachine(stateMachine).assert(steps: [
      .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
      .on(.closeButtonWasPressed, to: .closing(persons: 3), execute: .close(speed: 2)),
      .refuses(.closeButtonWasPressed),
      .on(.doorHasLocked, to: .closed),
    ])
    // docs: end
  }

  @Test("The documented coverage test passes with one transition as an exception")
  func coverage() {
    // docs: begin
    let coverage = TransitionCoverage(stateMachine)
    XCTStateMachine(stateMachine, coverage: coverage).assert(steps: [
      .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
      .on(.closeButtonWasPressed, to: .closing(persons: 3)),
    ])
    coverage.assertComplete(except: [TransitionName("closing", on: "doorHasLocked")])
    print(coverage.report)
    // docs: end
  }

  private enum Sum: DSLCompatible, Equatable { case zero, some }
  private enum Change: DSLCompatible { case add, clear }

  @Test("Coverage of a machine that is a function is complete if all listed transitions are taken")
  func functionCoverage() {
    // docs: begin
    let sum = StateMachine<Sum, Change, Never>(
      initial: .zero,
      reduce: { state, change in
        switch (state, change) {
        case (.zero, .add), (.some, .add): .next(.some)
        case (.some, .clear): .next(.zero)
        case (.zero, .clear): .refused(.noTransition)
        }
      })
    let coverage = TransitionCoverage(
      sum,
      expecting: [
        TransitionName("zero", on: "add"), TransitionName("some", on: "add"),
        TransitionName("some", on: "clear"),
      ])
    XCTStateMachine(sum, coverage: coverage)
      .assert(when: .zero, .some, on: .add, transitionTo: .some)
      .assert(when: .some, on: .clear, transitionTo: .zero)
    coverage.assertComplete()
    // docs: end
  }

  @Test("A manual clock runs an effect without real waiting")
  func clock() async {
    // docs: begin
    await withManualClock { clock in
      let runtime = Runtime<State, Event, Output>()
        .map(
          output: Output.close(speed:),
          to: { speed in
            try? await EffectClock.sleep(for: .seconds(10) / speed)
            return Event.doorHasLocked
          })
      let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
      let recorder = StateRecorder(door)

      await door.send(.closeButtonWasPressed)
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(5))
      await recorder.wait(until: .closed)
    }
    // docs: end
  }
}
