import PipeMachines
import Synchronization
import Testing

enum Boil: MachineState, Equatable {
  case off
  case heating(degrees: Int)
  case hot
}

enum BoilEvent: MachineEvent, Equatable {
  case on
  case rose(by: Int)
  case measured(by: String, degrees: Int)
  case tick
  case wrong
  case off
  case slowly(by: Int)
  case boiled
}

enum BoilOutput: MachineOutput { case boil }

/// A boiler whose temperature changes while it heats, and whose effect waits until the water boils.
func boiler() -> StateMachine<Boil, BoilEvent, BoilOutput> {
  StateMachine(initial: Boil.off) {
    When(state: Boil.off) {
      On(event: BoilEvent.on) { Transition(to: Boil.heating(degrees: 20)) }
      Ignore(event: BoilEvent.tick)
      Ignore(event: BoilEvent.rose(by:))
      Ignore(event: BoilEvent.measured(by:degrees:))
    }
    When(state: Boil.heating(degrees:)) { _ in
      Execute(output: BoilOutput.boil)
    } transitions: { degrees in
      On(event: BoilEvent.rose(by:)) { by in
        Guard(predicate: by > 0)
      } transition: { by in
        Stay { Boil.heating(degrees: degrees + by) }
      }
      Ignore(event: BoilEvent.rose(by:))
      On(event: BoilEvent.wrong) { Stay { Boil.hot } }
      On(event: BoilEvent.slowly(by:)) { by in
        await Task.yield()
        return Stay { by == 0 ? Boil.off : Boil.heating(degrees: degrees + by) }
      }
      On(event: BoilEvent.boiled) { Transition(to: Boil.hot) }
      On(event: BoilEvent.off) { Transition(to: Boil.off) }
      On(event: BoilEvent.on) { Transition(to: Boil.heating(degrees: degrees)) }
    }
    When(state: Boil.hot) {
      Ignore(
        events: OneOf {
          BoilEvent.tick
          BoilEvent.on
        })
      On(event: BoilEvent.off) { Transition(to: Boil.off) }
    }
  }
}

@Suite("Declarations of internal transitions and ignored events")
struct StayTests {
  private let machine = boiler()

  @Test("A guarded 'Stay' makes an internal transition if its guard holds")
  func stay() {
    #expect(
      machine.reduce(.heating(degrees: 20), .rose(by: 5)) == .stays(.heating(degrees: 25)))
    #expect(machine.reduce(.heating(degrees: 20), .on) == .next(.heating(degrees: 20)))
    #expect(Reduction.stays(Boil.off) != .next(Boil.off))
  }

  @Test("'Ignore' consumes an event that is given as a value, by its constructor or in a list")
  func ignore() {
    #expect(machine.reduce(.off, .tick) == .ignored)
    #expect(machine.reduce(.off, .rose(by: 5)) == .ignored)
    #expect(machine.reduce(.off, .measured(by: "a", degrees: 1)) == .ignored)
    #expect(machine.reduce(.hot, .on) == .ignored)
    #expect(machine.reduce(.hot, .tick) == .ignored)
    #expect(machine.reduce(.hot, .rose(by: 1)) == .refused(.noTransition))
    // The guard of the transition before it does not pass.
    #expect(machine.reduce(.heating(degrees: 20), .rose(by: 0)) == .ignored)
  }

  @Test(
    "An 'Ignore' hides later transitions for its event, and earlier transitions hide the 'Ignore'")
  func order() {
    let machine = StateMachine<Boil, BoilEvent, BoilOutput>(initial: .off) {
      When(state: .off) {
        On(event: .on) { Transition(to: .hot) }
        Ignore(event: .on)
        Ignore(event: .tick)
        On(event: .tick) { Transition(to: .hot) }
      }
    }
    #expect(machine.reduce(.off, .on) == .next(.hot))
    #expect(machine.reduce(.off, .tick) == .ignored)
    #expect(machine.overlaps().map(\.isHidden) == [true, true])
  }

  @Test("An 'Ignore' can be stored in a constant, and takes effect in each 'When' that lists it")
  func stored() {
    let tick: On<Boil, BoilEvent> = Ignore(event: .tick)
    let rose: On<Boil, BoilEvent> = Ignore(event: BoilEvent.rose(by:))
    let measured: On<Boil, BoilEvent> = Ignore(event: BoilEvent.measured(by:degrees:))
    let others: On<Boil, BoilEvent> = Ignore(
      events: OneOf {
        BoilEvent.on
        BoilEvent.off
      })
    let list = [tick, rose, measured, others]
    let machine = StateMachine<Boil, BoilEvent, Never>(initial: .off) {
      When(
        states: OneOf {
          Boil.off; Boil.hot
        }
      ) { list }
    }
    for event in [BoilEvent.tick, .rose(by: 1), .measured(by: "", degrees: 0), .on, .off] {
      #expect(machine.reduce(.off, event) == .ignored)
      #expect(machine.reduce(.hot, event) == .ignored)
    }
    #expect(machine.reduce(.off, .wrong) == .refused(.noTransition))
    #expect(machine.alphabet == ["rose", "measured", "on", "tick", "off"])
  }

  @Test("A 'Stay' that would leave its state is refused, and the error names both states")
  func leaving() async {
    let error =
      "'Stay' in state 'heating' leads to state 'hot'; write 'Transition(to:)' to leave the state"
    #expect(machine.reduce(.heating(degrees: 1), .wrong) == .refused(.thrown(error)))
    let reducer = StateMachine<Boil, BoilEvent, Never>(
      initial: .off, reduce: { _, _ in .stays(.hot) })
    #expect(reducer.reduce(.hot, .tick) == .stays(.hot))
    let other =
      "'Stay' in state 'off' leads to state 'hot'; write 'Transition(to:)' to leave the state"
    #expect(reducer.reduce(.off, .tick) == .refused(.thrown(other)))
    // An asynchronous transition is refused when it returns.
    guard case .suspended(let run) = machine.reduce(.heating(degrees: 1), .slowly(by: 0)) else {
      Issue.record("not suspended")
      return
    }
    let refused = await #expect(throws: (any Error).self) { try await run.target() }
    #expect(
      refused.map { Refusal.thrown(by: $0) }
        == .thrown(error.replacing("'hot'", with: "'off'")))
  }

  @Test("Any change of a state that is a struct can be an internal transition")
  func structs() {
    struct Count: MachineState, Equatable { var n = 0 }
    let machine = StateMachine<Count, BoilEvent, Never>(
      initial: Count(),
      reduce: { state, event in
        switch event {
        case .rose(let by): .stays(Count(n: state.n + by))
        case .tick: .ignored
        default: .refused(.noTransition)
        }
      })
    #expect(machine.reduce(Count(), .rose(by: 2)) == .stays(Count(n: 2)))
    #expect(machine.reduce(Count(), .tick) == .ignored)
  }

  @Test("A machine lists its ignored events by state")
  func listing() {
    #expect(
      machine.ignoredEvents == ["off": ["rose", "measured", "tick"], "hot": ["on", "tick"]])
    #expect(machine.evaluate(.tick, in: .off) == .ignored)
    #expect(machine.evaluate(.rose(by: 1), in: .heating(degrees: 1)) == .accepted)
    #expect(machine.evaluate(caseNamed: "rose", in: .off) == .ignored)
    #expect(machine.evaluate(caseNamed: "rose", in: .heating(degrees: 1)) == .dependsOnValues)
    #expect(machine.evaluate(caseNamed: "rose", in: .hot) == .refused(.noTransition))
    #expect(machine.alphabet.contains("measured"))
  }
}
