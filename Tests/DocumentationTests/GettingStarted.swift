import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

// docs: begin
enum State: DSLCompatible {
  case open(persons: Int)
  case closing(persons: Int)
  case closed
}

enum Event: DSLCompatible {
  case personsHaveEntered(persons: Int)
  case closeButtonWasPressed
  case doorHasLocked
}

enum Output: DSLCompatible {
  case close(speed: Int)
}
// docs: end

// docs: begin
let stateMachine = StateMachine(initial: State.open(persons: 0)) {
  When(state: State.open(persons:)) { _ in
    Execute.noOutput
  } transitions: { persons in
    On(event: Event.personsHaveEntered(persons:)) { newPersons in
      Transition(to: State.open(persons: persons + newPersons))
    }

    On(event: Event.closeButtonWasPressed) {
      Guard(predicate: persons < 10)
    } transition: {
      Transition(to: State.closing(persons: persons))
    }
  }

  When(state: State.closing(persons:)) { persons in
    Execute(output: Output.close(speed: persons > 5 ? 1 : 2))
  } transitions: { _ in
    On(event: Event.doorHasLocked) {
      Transition(to: State.closed)
    }
  }
}
// docs: end

// docs: begin
func close(speed: Int) async -> Event {
  try? await EffectClock.sleep(for: .milliseconds(100) / speed)
  return .doorHasLocked
}
// docs: end

@Suite("Documented first steps")
struct GettingStarted {
  @Test("The elevator runs from open to closed", .stallLimit(.seconds(60)))
  func run() async {
    // docs: begin
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))

    let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
    await door.send(.personsHaveEntered(persons: 3))
    await door.send(.closeButtonWasPressed)

    for await state in door {
      print(state)
      if case .closed = state { break }
    }
    // docs: end
    #expect("\(door.state)" == "closed")
  }

  @Test("'send' returns the refusal of an event with its reason")
  func outcome() async {
    let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: Runtime())
    var reason: Refusal?
    // docs: begin
    switch await door.send(.doorHasLocked) {
    case .accepted(let state): print("moved to \(state)")
    case .refused(let refusal):
      print("refused: \(refusal)")  // noTransition
      reason = refusal
    case .finished: print("the run has ended")
    }
    // docs: end
    #expect(reason == .noTransition)
  }
}
