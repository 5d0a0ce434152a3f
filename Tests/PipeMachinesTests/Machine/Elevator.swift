import PipeMachines

// The elevator's door, as an author would write it in the machine language.
enum State: DSLCompatible, Equatable {
  case open(persons: Int)
  case closing(persons: Int)
  case closed
}

enum Event: DSLCompatible, Equatable {
  case personsHaveEntered(persons: Int)
  case closeButtonWasPressed
  case doorHasLocked
}

enum Output: DSLCompatible, Equatable {
  case close(speed: Int)
}

func makeElevator() -> StateMachine<State, Event, Output> {
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
  return stateMachine
}
