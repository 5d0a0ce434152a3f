import PipeRuntime

/// A fork between two philosophers, of whom one at a time holds it.
package enum Fork: Machine {
  package enum State: MachineState, Hashable {
    case free
    case held
  }

  package enum Event: MachineEvent, Hashable {
    case take
    case release
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.free) {
      When(state: State.free) {
        On(event: Event.take) { Transition(to: State.held) }
      }

      When(state: State.held) {
        On(event: Event.release) { Transition(to: State.free) }
      }
    }
  }
}
