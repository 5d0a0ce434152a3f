import PipeMachines
import Testing

private enum Gate: DSLCompatible, Equatable {
  case open(Int), shut, broken(any Sendable & Equatable)
  static func == (left: Gate, right: Gate) -> Bool { "\(left)" == "\(right)" }
}
private enum Turn: DSLCompatible { case push, pull(Int), lock, smash }
private enum Sound: DSLCompatible, Equatable { case creak, click }

@Suite("Overlapping rules of a machine")
struct OverlapTests {
  private let machine = StateMachine<Gate, Turn, Sound>(initial: .shut) {
    When(state: Gate.open) { count in
      On(event: .push) {
        Guard(predicate: count > 0)
      } transition: {
        Transition(to: .shut)
      }
      On(event: .push) {
        Guard(predicate: count < 0)
      } transition: {
        Transition(to: .open(0))
      }
      On(event: .push) { Transition(to: .open(1)) }
      On(event: .push) { Transition(to: .open(2)) }
      On(
        events: OneOf {
          Turn.pull; Turn.lock
        }
      ) { Transition(to: .shut) }
    }
    When(state: .shut) {
      On(event: Turn.pull) { Transition(to: .open($0)) }
    }
    When(
      states: OneOf {
        Gate.open; Gate.shut
      }
    ) {
      Execute(output: .creak)
    } transitions: {
      On(event: Turn.pull) { _ in
        Guard(predicate: true)
      } transition: {
        Transition(to: .open(-$0))
      }
      On(event: .smash) { Transition(to: .shut) }
    }
  }

  @Test("Every overlap is reported with state, event, both source locations, and the hidden rule")
  func tells() {
    #expect(
      machine.overlaps().map(\.description) == [
        "state 'open': When 3 adds to When 1",
        "state 'open', event 'push': On 2 of When 1 is tried where the guard of On 1 of When 1 fails",
        "state 'open', event 'push': On 3 of When 1 is tried where the guard of On 2 of When 1 fails",
        "state 'open', event 'push': On 4 of When 1 is hidden by On 3 of When 1, which has no guard",
        "state 'open', event 'pull': On 1 of When 3 is hidden by On 5 of When 1, which has no guard",
        "state 'shut': When 3 adds to When 2",
        "state 'shut', event 'pull': On 1 of When 3 is hidden by On 1 of When 2, which has no guard",
      ])
  }

  @Test("A hidden rule is never used, but a rule after a guarded rule is used")
  func holds() {
    #expect(machine.reduce(.open(1), .push) == .next(.shut))
    #expect(machine.reduce(.open(-1), .push) == .next(.open(0)))
    #expect(machine.reduce(.open(0), .push) == .next(.open(1)))
    #expect(machine.reduce(.open(0), .pull(4)) == .next(.shut))
    #expect(machine.reduce(.shut, .pull(4)) == .next(.open(4)))
    #expect(machine.output(.shut) == .creak)
  }

  @Test("A machine without overlaps reports none")
  func none() { #expect(makeElevator().overlaps().isEmpty) }
}
