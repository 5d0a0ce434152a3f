import PipeRuntime

/// The door of an elevator. Persons enter while the door is open. The more persons are inside, the
/// slower the door closes.
package enum ElevatorDoor: Machine {
  package enum State: MachineState {
    case open(persons: Int)
    case closing(persons: Int)
    case closed
  }

  package enum Event: MachineEvent {
    case personsHaveEntered(persons: Int)
    case closeButtonWasPressed
    case openButtonWasPressed
    case doorHasLocked
  }

  package enum Output: MachineOutput {
    case close(speed: Int)
  }

  package struct Parameters: MachineParameters {
    /// The number of persons in a full cabin. While the cabin is full, the button does not close
    /// the door.
    package var capacity = 10
    /// How long the door takes to close at speed 1. Unit: milliseconds.
    package var closingTime = 2_000

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("capacity", capacity, atLeast: 0)
      try require("closingTime", closingTime, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.open(persons: 0)) {
      When(state: State.open(persons:)) { _ in
        Execute.noOutput
      } transitions: { persons in
        On(event: Event.personsHaveEntered(persons:)) { newPersons in
          Transition(to: State.open(persons: persons + newPersons))
        }

        On(event: Event.closeButtonWasPressed) {
          Guard(predicate: persons < parameters.capacity)
        } transition: {
          Transition(to: State.closing(persons: persons))
        }
      }

      When(state: State.closing(persons:)) { persons in
        Execute(output: Output.close(speed: persons > 5 ? 1 : 2))
      } transitions: { persons in
        On(event: Event.doorHasLocked) {
          Transition(to: State.closed)
        }

        On(event: Event.openButtonWasPressed) {
          Transition(to: State.open(persons: persons))
        }
      }

      When(state: State.closed) {
        Execute.noOutput
      } transitions: {
        On(event: Event.openButtonWasPressed) {
          Transition(to: State.open(persons: 0))
        }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    Runtime()
      .map(
        output: Output.close(speed:),
        to: { speed in
          try? await Task.sleep(for: .milliseconds(parameters.closingTime) / speed)
          return Event.doorHasLocked
        }, gives: .oneOf { Event.doorHasLocked },
        strategy: .cancelWhenAnyState
      )
      .connectAsSender(
        to: ports.pipe("arrivals"), when: State.closed, send: FloorDisplay.Event.refresh)
  }
}
