import PipeRuntime
import PipeRuntimeTestKit
import Testing

private enum Bath: DSLCompatible {
  case empty
  case filling(litres: Int)
}
private enum Tap: DSLCompatible { case open, litre, knock, close }

private func bath() -> StateMachine<Bath, Tap, Never> {
  StateMachine(initial: .empty) {
    When(state: .empty) {
      On(event: .open) { Transition(to: .filling(litres: 0)) }
      Ignore(event: .knock)
    }
    When(state: Bath.filling(litres:)) { _ in
      Execute.noOutput
    } transitions: { litres in
      On(event: .litre) { Stay { .filling(litres: litres + 1) } }
      On(event: .close) { Transition(to: .empty) }
    }
  }
}

@Suite("Assertions about internal transitions and ignored events")
struct InternalTransitionTests {
  @Test("Assertions and scenarios accept the expected kind of transition")
  func passes() {
    let failures = FailureReporter.capture {
      XCTStateMachine(bath())
        .assert(when: .filling(litres: 1), on: .litre, staysIn: .filling(litres: 2))
        .assertIgnored(when: .empty, on: .knock)
        .assertNoTransition(when: .filling(litres: 1), on: .knock, because: .noTransition)
        .assert(steps: [
          .ignores(.knock), .on(.open, to: .filling(litres: 0)),
          .on(.litre, staysIn: .filling(litres: 1)), .on(.litre, staysIn: .filling(litres: 2)),
          .refuses(.knock),
        ])
    }
    #expect(failures == [])
  }

  @Test("A failure says which kind of transition the machine has")
  func fails() {
    let failures = FailureReporter.capture {
      XCTStateMachine(bath())
        .assert(when: .filling(litres: 1), on: .litre, transitionTo: .filling(litres: 2))
        .assert(when: .empty, on: .open, staysIn: .filling(litres: 0))
        .assert(when: .empty, on: .knock, transitionTo: .empty)
        .assertNoTransition(when: .empty, on: .knock)
        .assertIgnored(when: .empty, on: .open)
        .assertIgnored(when: .filling(litres: 1), on: .knock)
    }
    #expect(
      failures == [
        """
        when filling(litres: 1), on litre: the transition is internal and enters no state
          expected: filling(litres: 2), entered
          actual:   filling(litres: 2), without an entry
          Write Transition(to:) instead of Stay for On(event: litre) in When(state: filling), or \
        expect it with assert(when:on:staysIn:).
        """,
        """
        when empty, on open: the transition enters the state
          expected: filling(litres: 0), without an entry
          actual:   filling(litres: 0), entered
          Write Stay instead of Transition(to:) for On(event: open) in When(state: empty), or \
        expect it with assert(when:on:transitionTo:).
        """,
        """
        when empty, on knock: the event is ignored
          expected: empty
          actual:   an ignored event
          Remove Ignore(event: knock) from When(state: empty), or expect it with \
        assertIgnored(when:on:).
        """,
        """
        when empty, on knock: the event is ignored
          expected: no transition
          actual:   an ignored event
          Remove Ignore(event: knock) from When(state: empty), or expect it with \
        assertIgnored(when:on:).
        """,
        """
        when empty, on open: the event is not ignored
          expected: an ignored event
          actual:   filling(litres: 0)
          Write Ignore(event: open) in When(state: empty), or expect the event's actual outcome.
        """,
        """
        when filling(litres: 1), on knock: there is no transition
          expected: an ignored event
          actual:   no transition; filling accepts litre, close
          Add On(event: knock) to When(state: filling), or expect it with \
        assertNoTransition(when:on:).
        """,
      ])
  }

  @Test("Coverage counts internal transitions and ignored events in assertions and in runs")
  func coverage() async {
    let asserted = TransitionCoverage(bath())
    XCTStateMachine(bath(), coverage: asserted)
      .assert(when: .filling(litres: 1), on: .litre, staysIn: .filling(litres: 2))
      .assertIgnored(when: .empty, on: .knock)
    #expect(
      asserted.untakenTransitions == [
        TransitionName("filling", on: "close"), TransitionName("empty", on: "open"),
      ])
    let coverage = TransitionCoverage(bath())
    let sequence = AsyncStateMachineSequence(
      stateMachine: bath(), runtime: Runtime<Bath, Tap, Never>().recording(into: coverage))
    for event in [Tap.knock, .open, .litre, .close] { await sequence.send(event) }
    sequence.finish()
    coverage.assertComplete()
  }
}
