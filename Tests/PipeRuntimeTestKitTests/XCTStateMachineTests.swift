import PipeRuntime
import Testing

import PipeRuntimeTestKit

@Suite("XCTStateMachine")
struct XCTStateMachineTests {
  let stateMachine = makeElevator()

  @Test("The guide's assertions about the elevator hold")
  func guide() {
    XCTStateMachine(stateMachine)
      .assertNoOutput(when: .open(persons: 0))
      .assert(
        when: .open(persons: 0),
        on: .personsHaveEntered(persons: 1),
        transitionTo: .open(persons: 1)
      )
      .assert(
        when: .open(persons: 5),
        on: .closeButtonWasPressed,
        transitionTo: .closing(persons: 5)
      )
      .assertNoTransition(when: .open(persons: 15), on: .closeButtonWasPressed)
      .assert(when: .closing(persons: 1), execute: .close(speed: 2))
      .assert(
        when: .closing(persons: 1),
        on: .doorHasLocked,
        transitionTo: .closed
      )
      .assertNoOutput(when: .closed)
  }

  @Test("An assertion accepts several states, or the reason of a refusal")
  func several() {
    let failures = FailureReporter.capture {
      XCTStateMachine(stateMachine)
        .assertNoOutput(when: .open(persons: 0), .closed)
        .assert(when: .closing(persons: 0), .closing(persons: 5), execute: .close(speed: 2))
        .assertNoTransition(when: .open(persons: 10), on: .closeButtonWasPressed, because: .guard)
        .assertNoTransition(
          when: .open(persons: 1), .closed, on: .doorHasLocked, because: .noTransition)
    }
    #expect(failures == [])
  }

  @Test("Failures go to the caller's reporter, for one assertion or for all")
  func reporter() async {
    let reportedTexts = Locked<[String]>([])
    var own: [String] = []
    let failures = await FailureReporter.capture {
      await XCTStateMachine(
        stateMachine, fail: { text in reportedTexts.withLock { $0.append(text) } }
      )
      .assertNoOutput(when: .closing(persons: 0))
      .assert(when: .closed, execute: .close(speed: 1))
      .assert(when: .closed, on: .doorHasLocked, transitionTo: .closed, fail: { own.append($0) })
      .assertNoTransition(when: .open(persons: 1), on: .closeButtonWasPressed)
      .assert(steps: [.refuses(.personsHaveEntered(persons: 1))])
      .assertEventually(when: .closed, on: .doorHasLocked, transitionTo: .closed)
      .assertEventually(steps: [.on(.doorHasLocked, to: .closed)])
    }
    #expect(failures == [])
    #expect(own.count == 1)
    #expect(own.first?.contains("there is no transition") == true)
    #expect(reportedTexts.withLock { $0.count } == 6)
  }
}

@Suite("Failures of XCTStateMachine")
struct XCTStateMachineFailureTests {
  let stateMachine = makeElevator()

  private func failures(_ body: (XCTStateMachine<State, Event, Output>) -> Void) -> [String] {
    FailureReporter.capture { body(XCTStateMachine(stateMachine)) }
  }

  @Test("A failure shows how the states differ")
  func wrongState() {
    #expect(
      failures {
        $0.assert(
          when: .open(persons: 5), on: .closeButtonWasPressed, transitionTo: .closing(persons: 6))
      } == [
        """
        when open(persons: 5), on closeButtonWasPressed: the transition enters another state
          expected: closing(persons: 6)
          actual:   closing(persons: 5)
          at persons: expected 6, actual 5
          Change the Transition of On(event: closeButtonWasPressed) in When(state: open), \
        or expect closing(persons: 5).
        """
      ])
  }

  @Test("A failure because of a missing transition shows the events that the state accepts")
  func noTransition() {
    #expect(
      failures {
        $0.assert(when: .open(persons: 5), on: .doorHasLocked, transitionTo: .closed)
          .assert(when: .closed, on: .doorHasLocked, transitionTo: .closed)
      } == [
        """
        when open(persons: 5), on doorHasLocked: there is no transition
          expected: closed
          actual:   no transition; open accepts personsHaveEntered, closeButtonWasPressed (guarded)
          Add On(event: doorHasLocked) to When(state: open), \
        or expect it with assertNoTransition(when:on:).
        """,
        """
        when closed, on doorHasLocked: there is no transition
          expected: closed
          actual:   no transition; closed accepts no events
          Add On(event: doorHasLocked) to When(state: closed), \
        or expect it with assertNoTransition(when:on:).
        """,
      ])
  }

  @Test("A failure distinguishes a guard from a missing transition")
  func guards() {
    #expect(
      failures {
        $0.assert(
          when: .open(persons: 12), on: .closeButtonWasPressed, transitionTo: .closing(persons: 12))
      } == [
        """
        when open(persons: 12), on closeButtonWasPressed: the guard refuses the event
          expected: closing(persons: 12)
          actual:   refused by a guard
          Change the Guard of On(event: closeButtonWasPressed) in When(state: open), \
        or expect it with assertNoTransition(when:on:).
        """
      ])
    #expect(
      failures {
        $0.assertNoTransition(
          when: .open(persons: 12), on: .closeButtonWasPressed, because: .noTransition
        )
        .assertNoTransition(when: .closed, on: .doorHasLocked, because: .guard)
      } == [
        """
        when open(persons: 12), on closeButtonWasPressed: the event is refused for another reason
          expected: no transition
          actual:   refused by a guard
          Remove On(event: closeButtonWasPressed) from When(state: open), or expect \
        'because: .guard'.
        """,
        """
        when closed, on doorHasLocked: the event is refused for another reason
          expected: refused by a guard
          actual:   no transition; closed accepts no events
          Add On(event: doorHasLocked) with a Guard to When(state: closed), or expect \
        'because: .noTransition'.
        """,
      ])
  }

  @Test("A failure shows the target of an unexpected transition")
  func unexpectedTransition() {
    #expect(
      failures { $0.assertNoTransition(when: .open(persons: 1), on: .closeButtonWasPressed) } == [
        """
        when open(persons: 1), on closeButtonWasPressed: there is a transition
          expected: no transition
          actual:   closing(persons: 1)
          Remove On(event: closeButtonWasPressed) from When(state: open), add a Guard that refuses \
        the event, or expect closing(persons: 1).
        """
      ])
  }

  @Test("A failure shows the expected and the actual output")
  func outputs() {
    #expect(
      failures {
        $0.assert(when: .closing(persons: 1), execute: .close(speed: 1))
          .assert(when: .closed, execute: .close(speed: 1))
          .assertNoOutput(when: .closing(persons: 9))
      } == [
        """
        when closing(persons: 1): the output differs
          expected: close(speed: 1)
          actual:   close(speed: 2)
          at speed: expected 1, actual 2
          Change the Execute of When(state: closing), or expect close(speed: 2).
        """,
        """
        when closed: there is no output
          expected: close(speed: 1)
          actual:   no output
          Add Execute(output: close(speed: 1)) to When(state: closed), or expect it with \
        assertNoOutput(when:).
        """,
        """
        when closing(persons: 9): there is an output
          expected: no output
          actual:   close(speed: 1)
          Write Execute.noOutput in When(state: closing), or expect close(speed: 1) with \
        assert(when:execute:).
        """,
      ])
  }

  @Test("Swift Testing records a failure at the assertion's own line")
  func place() {
    withKnownIssue {
      XCTStateMachine(stateMachine).assertNoOutput(when: .closing(persons: 1))
    } matching: { issue in
      issue.sourceLocation?.line == #line - 2
        && issue.sourceLocation?.fileName == "XCTStateMachineTests.swift"
    }
  }
}

private enum LoadingState: DSLCompatible { case idle, loading, loaded(Int) }
private enum LoadingEvent: DSLCompatible { case load, hang }

@Suite("Asynchronous transitions in XCTStateMachine")
struct AsyncTransitionTests {
  private let machine = StateMachine<LoadingState, LoadingEvent, Never>(initial: .idle) {
    When(state: LoadingState.idle) {
      On(event: LoadingEvent.load) {
        await Task.yield()
        return Transition(to: LoadingState.loaded(7))
      }
      On(event: LoadingEvent.hang) {
        try? await Task.sleep(for: .seconds(3600))
        return Transition(to: LoadingState.loading)
      }
    }
  }

  @Test("Asynchronous transitions are awaited by assertEventually")
  func eventually() async {
    await XCTStateMachine(machine)
      .assertEventually(when: .idle, on: .load, transitionTo: .loaded(7))
      .assertNoOutput(when: .idle)
      .assertEventually(steps: [.on(.load, to: .loaded(7)), .refuses(.load)])
  }

  @Test("An assertion fails if it times out, or if it does not wait for an asynchronous transition")
  func failures() async {
    let failures = await FailureReporter.capture {
      await XCTStateMachine(machine)
        .assert(when: .idle, on: .load, transitionTo: .loaded(7))
        .assertNoTransition(when: .idle, on: .load)
        .assertEventually(when: .idle, on: .load, transitionTo: .loaded(8))
        .assertEventually(
          when: .idle, on: .hang, transitionTo: .loading, within: .milliseconds(10))
    }
    #expect(
      failures == [
        """
        when idle, on load: the transition is asynchronous
          expected: loaded(7)
          actual:   a state that comes later
          Wait for the state with 'await assertEventually(when:on:transitionTo:)'.
        """,
        """
        when idle, on load: there is a transition
          expected: no transition
          actual:   a state that comes later
          Wait for the state with 'await assertEventually(when:on:transitionTo:)'.
        """,
        """
        when idle, on load: the transition enters another state
          expected: loaded(8)
          actual:   loaded(7)
          Change the Transition of On(event: load) in When(state: idle), or expect loaded(7).
        """,
        """
        when idle, on hang: timed out: the transition has not returned
          expected: loading
          actual:   no state within 10 ms
          Check what the transition of On(event: hang) in When(state: idle) waits for, or pass \
        a longer 'within:'.
        """,
      ])
  }
}
