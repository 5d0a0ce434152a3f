import PipeMachines
import PipeRuntimeTestKit
import Testing

private enum Offer: MachineState, Equatable {
  case idle
  case open(attempt: Int)
  case reminded, accepted, expired, blinking(on: Bool)
}
private enum Reply: MachineEvent, Equatable {
  case offer(attempt: Int), accept, renew, blink, slow, renewSlowly, count, look
}

private func machine(limit: Duration = .seconds(30)) -> StateMachine<Offer, Reply, Never> {
  StateMachine(initial: .idle) {
    When(state: .idle) {
      On(event: Reply.offer) { attempt in Transition(to: .open(attempt: attempt)) }
      On(event: .blink) { Transition(to: .blinking(on: true)) }
    }
    When(state: Offer.open) { attempt in
      On(event: .accept) { Transition(to: .accepted) }
      On(event: .renew) { Transition(to: .open(attempt: attempt)) }
      On(event: .count) { Stay { .open(attempt: attempt + 1) } }
      Ignore(event: .look)
      On(event: .slow) { () async throws -> Transition<Offer> in
        try await EffectClock.sleep(for: .seconds(100))
        throw CancellationError()
      }
      On(event: .renewSlowly) { () async throws -> Transition<Offer> in
        try await EffectClock.sleep(for: .seconds(100))
        return Transition(to: .open(attempt: attempt))
      }
      if attempt > 1 {
        After(.seconds(10) * attempt) { Transition(to: .reminded) }
      }
      After(limit) { Transition(to: .expired) }
    }
    When(state: .reminded) {
      After(.seconds(5)) { Transition(to: .expired) }
    }
    When(state: Offer.blinking) { on in
      After(.seconds(1)) { Transition(to: .blinking(on: !on)) }
      On(event: .accept) { Transition(to: .accepted) }
    }
  }
}

@Suite("Timers of states")
struct TimerTests {
  private typealias Sequence = AsyncStateMachineSequence<Offer, Reply, Never>

  private func withMachine(
    _ machine: StateMachine<Offer, Reply, Never> = machine(),
    _ body: (Sequence, ManualClock) async -> Void
  ) async {
    await withManualClock { clock in
      let sequence = Sequence(stateMachine: machine, runtime: Runtime())
      await body(sequence, clock)
      sequence.finish()
    }
  }

  @Test("A timer makes its transition once, at its deadline")
  func once() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      await clock.advance(by: .milliseconds(29_900))
      #expect(offer.state == .open(attempt: 1))
      #expect(clock.sleepers.map(\.offset) == [.seconds(30)])
      await clock.advance(by: .milliseconds(100))
      #expect(offer.state == .expired)
      #expect(clock.sleepers.isEmpty)
      await clock.advance(by: .seconds(100))
      #expect(offer.state == .expired)
    }
  }

  @Test("A transition out of the state cancels its timers")
  func cancelled() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      await clock.waitForSleepers()
      await offer.send(.accept)
      #expect(clock.sleepers.isEmpty)
      await clock.advance(by: .seconds(60))
      #expect(offer.state == .accepted)
    }
  }

  @Test("A transition from the state to itself starts its timers again")
  func reentered() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      await clock.advance(by: .seconds(20))
      await offer.send(.renew)
      await clock.advance(by: .seconds(29))
      #expect(offer.state == .open(attempt: 1))
      await clock.advance(by: .seconds(1))
      #expect(offer.state == .expired)
    }
  }

  @Test("An internal transition or an ignored event does not change a timer's deadline")
  func internalTransition() async {
    let counting = StateMachine<Offer, Reply, Never>(initial: .open(attempt: 1)) {
      When(state: Offer.open) { attempt in
        On(event: .count) { Stay { .open(attempt: attempt + 1) } }
        Ignore(event: .look)
        After(.seconds(30)) { Transition(to: .expired) }
      }
    }
    await withMachine(counting) { offer, clock in
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(20))
      await offer.send(.count)
      #expect(offer.state == .open(attempt: 2))
      await clock.advance(by: .seconds(9))
      await offer.send(.look)
      #expect(offer.state == .open(attempt: 2))
      await clock.advance(by: .seconds(1))
      #expect(offer.state == .expired)
    }
  }

  @Test("An internal transition that would change a timer of its state is refused")
  func changedTimer() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      await clock.advance(by: .seconds(5))
      await offer.send(.count)
      #expect(offer.state == .open(attempt: 1))
      await clock.advance(by: .seconds(25))
      #expect(offer.state == .expired)
    }
  }

  @Test("After an internal transition, a timer's transition is evaluated with the new values")
  func changedValues() async {
    let counting = StateMachine<Offer, Reply, Never>(initial: .open(attempt: 1)) {
      When(state: Offer.open) { attempt in
        On(event: .count) { Stay { .open(attempt: attempt + 1) } }
        After(.seconds(10)) { Transition(to: attempt == 1 ? .expired : .reminded) }
      }
    }
    await withMachine(counting) { offer, clock in
      await clock.waitForSleepers()
      await offer.send(.count)
      await clock.advance(by: .seconds(10))
      #expect(offer.state == .reminded)
    }
  }

  @Test("A timer whose transition is internal does nothing when it fires; other timers continue")
  func internalTimer() async {
    let staying = StateMachine<Offer, Reply, Never>(initial: .open(attempt: 1)) {
      When(state: Offer.open) { attempt in
        After(.seconds(10)) { Stay { .open(attempt: attempt + 1) } }
        After(.seconds(20)) { Transition(to: .expired) }
      }
    }
    await withMachine(staying) { offer, clock in
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(10))
      #expect(offer.state == .open(attempt: 1))
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(10))
      #expect(offer.state == .expired)
    }
  }

  @Test("A refused event does not change a timer's deadline")
  func refusedEvent() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      await clock.advance(by: .seconds(20))
      await offer.send(.offer(attempt: 7))
      await clock.advance(by: .seconds(10))
      #expect(offer.state == .expired)
    }
  }

  @Test("Of several timers of a state, the shortest fires and cancels the others")
  func several() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 2))
      await clock.advance(by: .seconds(20))
      #expect(offer.state == .reminded)
      #expect(clock.sleepers.map(\.offset) == [.seconds(25)])
      await clock.advance(by: .seconds(5))
      #expect(offer.state == .expired)
    }
  }

  @Test("Of timers with equal durations, the timer that is written first fires")
  func equal() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 3))
      await clock.advance(by: .seconds(30))
      #expect(offer.state == .reminded)
    }
  }

  @Test("A duration depends on the values of the state and on the parameters of the machine")
  func values() async {
    for (attempt, limit, expected) in [
      (5, Duration.seconds(30), Duration.seconds(30)), (5, .seconds(90), .seconds(50)),
      (1, .seconds(90), .seconds(90)),
    ] {
      await withMachine(machine(limit: limit)) { offer, clock in
        await offer.send(.offer(attempt: attempt))
        await clock.waitForSleepers()
        #expect(clock.sleepers.map(\.offset) == [expected])
      }
    }
  }

  @Test("A timer repeats if its transition enters the same state again")
  func repeated() async {
    await withMachine { offer, clock in
      await offer.send(.blink)
      await clock.advance(by: .seconds(1))
      #expect(offer.state == .blinking(on: false))
      await clock.advance(by: .seconds(10))
      #expect(offer.state == .blinking(on: false))
      await clock.advance(by: .seconds(1))
      #expect(offer.state == .blinking(on: true))
    }
  }

  @Test("A timer with the duration zero fires at once, as a separate step")
  func zero() async {
    await withMachine(machine(limit: .zero)) { offer, _ in
      let states = offer.makeAsyncIterator()
      await offer.send(.offer(attempt: 1))
      var seen: [Offer] = []
      while let state = await states.next() {
        seen.append(state)
        if state == .expired { break }
      }
      #expect(seen == [.idle, .open(attempt: 1), .expired])
    }
  }

  @Test("A timer that is due during an asynchronous transition fires if the transition throws")
  func duringTransition() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      offer.post(.slow)
      await clock.waitForSleepers(2)
      await clock.advance(by: .seconds(50))
      #expect(offer.state == .open(attempt: 1))
      await clock.advance(by: .seconds(60))
      #expect(offer.state == .expired)
    }
  }

  @Test("If a state is entered again, its timer starts again, even if the timer was already due")
  func dueBeforeEntry() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      offer.post(.renewSlowly)
      await clock.waitForSleepers(2)
      await clock.advance(by: .seconds(129))
      #expect(offer.state == .open(attempt: 1))
      await clock.advance(by: .seconds(1))
      #expect(offer.state == .expired)
    }
  }

  @Test("The timer of the initial state starts with the machine")
  func initial() async {
    let machine = StateMachine<Offer, Reply, Never>(initial: .reminded) {
      When(state: .reminded) { After(.milliseconds(1)) { Transition(to: .expired) } }
    }
    await withMachine(machine) { offer, clock in
      await clock.advance(by: .milliseconds(1))
      #expect(offer.state == .expired)
    }
  }

  @Test("A finished machine has no sleeping timer")
  func finished() async {
    await withMachine { offer, clock in
      await offer.send(.offer(attempt: 1))
      await clock.waitForSleepers()
      offer.finish()
      await clock.advance(by: .seconds(60))
      #expect(clock.sleepers.isEmpty)
      #expect(offer.state == .open(attempt: 1))
    }
  }

  @Test(
    "An invalid duration is an error",
    arguments: [Duration.seconds(-1), .seconds(101 * 365 * 86_400)])
  func invalid(duration: Duration) {
    do {
      _ = try machine(limit: duration).timers(in: .open(attempt: 1))
      Issue.record("no error for \(duration)")
    } catch {
      #expect("\(error)".hasPrefix("the timer of state 'open' has an invalid duration of"))
    }
  }
}

@Suite("Listed timers")
struct TimerListingTests {
  @Test("If no branch of a machine has a timer, the machine knows that it has no timers")
  func none() {
    let machine = StateMachine<Offer, Reply, Never>(initial: .idle) {
      When(state: .idle) { On(event: .accept) { Transition(to: .accepted) } }
      When(state: Offer.open) { attempt in
        if attempt > 3 {
          On(event: .accept) { Transition(to: .accepted) }
        } else {
          On(event: .renew) { Transition(to: .expired) }
        }
        switch attempt {
        case 1: On(event: .blink) { Transition(to: .idle) }
        case 2: On(event: .blink) { Transition(to: .reminded) }
        default: On(event: .blink) { Transition(to: .expired) }
        }
        for number in 0..<attempt {
          On(event: .blink) { Transition(to: .open(attempt: number)) }
        }
      }
    }
    #expect(machine.timerPresence.isNone)
    #expect(machine.timerDescriptions().all.isEmpty)
  }

  @Test("A timer starts even if it is in a branch that sample values of the state do not reach")
  func hidden() throws {
    let machine = StateMachine<Offer, Reply, Never>(initial: .idle) {
      When(state: Offer.open) { attempt in
        switch attempt {
        case 0: On(event: .blink) { Transition(to: .idle) }
        case 1:
          On(event: .blink) { Transition(to: .reminded) }
          After(.seconds(3)) { Transition(to: .reminded) }
        default:
          if attempt == 2 {
            On(event: .renew) { Transition(to: .reminded) }
          } else {
            After(.seconds(1)) { Transition(to: .idle) }
            for number in 3..<attempt {
              After(.seconds(number)) { Transition(to: .open(attempt: number)) }
            }
          }
        }
      }
    }
    #expect(!machine.timerPresence.isNone)
    func durations(_ attempt: Int) throws -> [Duration] {
      try machine.timers(in: .open(attempt: attempt)).map(\.duration)
    }
    #expect(try durations(0) == [])
    #expect(try durations(1) == [.seconds(3)])
    #expect(try durations(2) == [])
    #expect(try durations(5) == [.seconds(1), .seconds(3), .seconds(4)])
    #expect(machine.fire(2, in: .open(attempt: 5)) == .next(.open(attempt: 4)))
    #expect(machine.fire(3, in: .open(attempt: 5)) == nil)
    #expect(machine.fire(0, in: .idle) == nil)
  }

  @OnBuilder<Offer, Reply>
  private static func common(_ attempt: Int) -> Transitions<Offer, Reply> {
    if attempt > 7 { After(.seconds(7)) { Transition(to: .expired) } }
    On(event: .accept) { Transition(to: .accepted) }
  }

  @Test("A timer starts if its transitions are listed by a separate function")
  func listedElsewhere() throws {
    let machine = StateMachine<Offer, Reply, Never>(initial: .idle) {
      When(state: Offer.open) { attempt in
        if attempt > 3 { Self.common(attempt) }
      }
    }
    #expect(!machine.timerPresence.isNone)
    #expect(try machine.timers(in: .open(attempt: 4)) == [])
    #expect(try machine.timers(in: .open(attempt: 8)).map(\.duration) == [.seconds(7)])
  }

  @Test("A timer that is stored in a variable starts in the states that list the variable")
  func kept() throws {
    let kept = After<Offer>(.seconds(4)) { Transition(to: .expired) }
    let machine = StateMachine<Offer, Reply, Never>(initial: .idle) {
      When(
        states: OneOf {
          Offer.open; Offer.blinking
        }
      ) { (_: Offer) in kept }
    }
    for state in [Offer.open(attempt: 1), .blinking(on: true)] {
      #expect(try machine.timers(in: state).map(\.duration) == [.seconds(4)])
    }
    #expect(try machine.timers(in: .idle) == [])
  }

  @Test("The description contains the durations that do not depend on values")
  func described() {
    #expect(
      machine().timerDescriptions().all == [
        TimerDescription(state: "open", after: nil),
        TimerDescription(state: "blinking", after: "1 s"),
        TimerDescription(state: "reminded", after: "5 s"),
      ])
  }

  @Test("The description of a machine does not compute a timer's duration with sample values")
  func sampleDuration() {
    let machine = StateMachine<Offer, Reply, Never>(initial: .idle) {
      When(state: Offer.open) { attempt in
        After(.seconds(60 / attempt)) { Transition(to: .expired) }
      }
    }
    #expect(
      machine.timerDescriptions().all == [TimerDescription(state: "open", after: nil)])
  }
}
