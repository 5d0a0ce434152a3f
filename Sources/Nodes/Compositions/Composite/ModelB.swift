import PipeRuntime

/// A model that is active with a value, until it and the other model are reset together.
package enum ModelB: Machine {
  package enum State: MachineState, Hashable {
    case inactive
    case active(value: Int)
    case failed
  }

  package enum Event: MachineEvent, Hashable {
    /// For this model alone.
    case eventB(value: Int)
    /// For both models, or for none.
    case eventX
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.inactive) {
      When(state: State.inactive) {
        On(event: Event.eventB(value:)) { value in
          Transition(to: value < 0 ? State.failed : State.active(value: value))
        }
      }

      When(state: State.active(value:)) { _ in
        On(event: Event.eventX) { Transition(to: State.inactive) }
      }

      When(state: State.failed) {
        On(event: Event.eventX) { Transition(to: State.inactive) }
      }
    }
  }
}
