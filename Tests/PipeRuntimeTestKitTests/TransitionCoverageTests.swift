import PipeRuntime
import Testing

import PipeRuntimeTestKit

@Suite("Coverage of transitions")
struct TransitionCoverageTests {
  let stateMachine = makeElevator()

  @Test("Coverage counts transitions taken by assertions and scenarios, and guards' refusals")
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
      coverage.untakenTransitions == [
        TransitionName("open", on: "closeButtonWasPressed"),
        TransitionName("closing", on: "doorHasLocked"),
      ])
  }

  @Test("Coverage is complete when every transition is taken or listed as an exception")
  func complete() {
    let coverage = TransitionCoverage(stateMachine)
    coverage.record(
      from: .open(persons: 1), on: .personsHaveEntered(persons: 1), isTaken: true)
    coverage.record(from: .open(persons: 1), on: .closeButtonWasPressed, isTaken: true)
    coverage.assertComplete(except: [TransitionName("closing", on: "doorHasLocked")])
    coverage.record(from: .closing(persons: 1), on: .doorHasLocked, isTaken: true)
    coverage.assertComplete()
  }

  @Test(
    "Incomplete coverage fails, and lists the missing transitions and the superfluous exceptions")
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
          Assert each transition, or list exceptions in 'except:'.
        'except:' contains names that match no transition of the machine:
          shut on knock
        'except:' contains transitions that were taken:
          open on personsHaveEntered
        1 of 3 transitions taken
          state    event                  taken  refused
          open     personsHaveEntered         1        0
          open     closeButtonWasPressed      0        1  not taken
          closing  doorHasLocked              0        0  not taken
        """
      ])
  }

  @Test("Coverage is recorded by a running machine")
  func running() async throws {
    let coverage = TransitionCoverage(stateMachine)
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: { _ in Event.doorHasLocked })
      .recording(into: coverage)
    let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
    let recorder = StateRecorder(door)
    await door.send(.personsHaveEntered(persons: 12))
    await door.send(.closeButtonWasPressed)
    #expect(coverage.untakenTransitions.count == 2)
    await door.send(.personsHaveEntered(persons: -12))
    await door.send(.closeButtonWasPressed)
    await recorder.wait(until: .closed)
    // Middleware is notified of a state after the observers.
    let isComplete: Bool? = try await poll(every: .milliseconds(1), within: .seconds(20)) {
      coverage.untakenTransitions.isEmpty ? true : nil
    }
    #expect(isComplete == true)
    coverage.assertComplete()
    #expect(
      coverage.entries.map(\.takenCount) == [2, 1, 1]
        && coverage.entries.map(\.refusedCount) == [0, 1, 0])
  }

  private enum Lift: DSLCompatible { case floor(Int), stuck }
  private enum Button: DSLCompatible { case up, down, alarm }

  @Test("Coverage adds transitions hidden by an 'if' when the machine enters the state")
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
    #expect(coverage.untakenTransitions == [TransitionName("stuck", on: "alarm")])
    #expect(
      coverage.report.hasSuffix("Not all transitions of floor can be listed before they are seen."))
    XCTStateMachine(lift, coverage: coverage)
      .assert(when: .floor(1), on: .up, transitionTo: .floor(2))
    #expect(
      coverage.untakenTransitions == [
        TransitionName("floor", on: "down"), TransitionName("floor", on: "alarm"),
        TransitionName("stuck", on: "alarm"),
      ])
  }

  private enum Load: DSLCompatible { case start, loading, loaded }
  private enum Step: DSLCompatible { case load, didLoad, didFail }
  private struct Sum: DSLCompatible, Equatable { var count = 0 }

  /// A machine that accepts `didFail`, which its tests do not require.
  private let loading = StateMachine<Load, Step, Never>(
    initial: .start,
    reduce: { state, step in
      switch (state, step) {
      case (.start, .load): .next(.loading)
      case (.loading, .didLoad): .next(.loaded)
      case (.loading, .didFail): .next(.start)
      default: .refused(.noTransition)
      }
    })

  @Test("Coverage of a machine that is a function fails unless the test lists the transitions")
  func functionWithoutList() {
    let coverage = TransitionCoverage(loading)
    #expect(FailureReporter.capture { coverage.assertComplete() }.count == 1)
    XCTStateMachine(loading, coverage: coverage)
      .assert(when: .start, on: .load, transitionTo: .loading)
      .assertNoTransition(when: .loaded, on: .load)
    let failures = FailureReporter.capture { coverage.assertComplete() }
    #expect(
      failures == [
        """
        the transitions are unknown, because the machine is defined by a function
          List them: TransitionCoverage(stateMachine, expecting: […]); transitions taken:
            TransitionName("start", on: "load"),
        transitions taken: 1; the total is unknown
          state  event  taken  refused
          start  load       1
        """
      ])
  }

  @Test("Coverage of a machine that is a function compares its steps with the author's list")
  func function() async {
    let coverage = TransitionCoverage(
      loading,
      expecting: [
        TransitionName("loading", on: "didLoad"), TransitionName("start", on: "load"),
      ])
    let sequence = AsyncStateMachineSequence(
      stateMachine: loading, runtime: Runtime().recording(into: coverage))
    await sequence.send(.load)
    #expect(coverage.untakenTransitions == [TransitionName("loading", on: "didLoad")])
    await sequence.send(.didLoad)
    coverage.assertComplete()
    coverage.record(from: .loading, on: .didFail, isTaken: true)
    let failures = FailureReporter.capture { coverage.assertComplete() }
    #expect(
      failures == [
        """
        'expecting:' lacks transitions that were taken:
          loading on didFail
        2 of 2 transitions taken
          state    event    taken  refused
          start    load         1        0
          loading  didLoad      1        0
          loading  didFail      1           not expected
        """
      ])
  }

  @Test("Coverage names a struct state by its type")
  func structs() {
    let sum = StateMachine<Sum, Step, Never>(
      initial: Sum(), reducer: { sum, step in if step == .load { sum.count += 1 } })
    let name = TransitionName("TransitionCoverageTests.Sum", on: "load")
    let coverage = TransitionCoverage(sum, expecting: [name])
    #expect(coverage.untakenTransitions == [name])
    XCTStateMachine(sum, coverage: coverage)
      .assert(when: Sum(count: 1), on: .load, transitionTo: Sum(count: 2))
      .assertNoTransition(when: Sum(), on: .didLoad)
    coverage.assertComplete()
  }

  @Test("Coverage of a machine without transitions fails as meaningless")
  func nothing() {
    let still = StateMachine<Load, Step, Never>(initial: .start) {
      When(state: .start) { Execute.noOutput }
    }
    let failures = FailureReporter.capture { TransitionCoverage(still).assertComplete() }
    #expect(failures.count == 1)
    #expect(failures.first?.hasPrefix("there are no transitions to be taken") == true)
    let function = TransitionCoverage(loading, expecting: [])
    #expect(FailureReporter.capture { function.assertComplete() }.count == 1)
  }
}
