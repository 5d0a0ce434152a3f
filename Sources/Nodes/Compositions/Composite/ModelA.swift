import PipeRuntime

/// A model that is active with a message, until it and the other model are reset together.
package enum ModelA: Machine {
  package enum State: MachineState, Hashable {
    case inactive
    case active(message: String)
    case failed
  }

  package enum Event: MachineEvent, Hashable {
    /// For this model alone.
    case eventA(message: String)
    /// For both models, or for none.
    case eventX
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.inactive) {
      When(state: State.inactive) {
        On(event: Event.eventA(message:)) { message in
          Transition(to: message.isEmpty ? State.failed : State.active(message: message))
        }
      }

      When(state: State.active(message:)) { _ in
        On(event: Event.eventX) { Transition(to: State.inactive) }
      }

      When(state: State.failed) {
        On(event: Event.eventX) { Transition(to: State.inactive) }
      }
    }
  }
}
