import PipeRuntime

/// The door of a lift. Four events are synchronized with the motor: `open`, `go`, `emergencyStop`
/// and `reset`.
package enum LiftDoor: Machine {
  package enum State: MachineState, Hashable {
    case closed
    case open(persons: Int)
    case stopped
  }

  package enum Event: MachineEvent, Hashable {
    case open
    case close
    case enter(persons: Int)
    case go(floor: Int)
    case emergencyStop
    case reset
  }

  package struct Parameters: MachineParameters {
    /// The maximum number of persons in the lift.
    package var capacity = 10

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("capacity", capacity, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.closed) {
      When(state: State.closed) {
        On(event: Event.open) { Transition(to: State.open(persons: 0)) }
        On(event: Event.go(floor:)) { _ in Transition(to: State.closed) }
        On(event: Event.emergencyStop) { Transition(to: State.stopped) }
      }

      When(state: State.open(persons:)) { persons in
        On(event: Event.close) { Transition(to: State.closed) }

        On(event: Event.enter(persons:)) { more in
          Guard(predicate: more > 0 && persons + more <= parameters.capacity)
        } transition: { more in
          Transition(to: State.open(persons: persons + more))
        }

        On(event: Event.emergencyStop) { Transition(to: State.stopped) }
      }

      When(state: State.stopped) {
        On(event: Event.reset) { Transition(to: State.closed) }
      }
    }
  }
}
