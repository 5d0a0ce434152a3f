import PipeRuntime

/// Goes on and off, together with others.
enum Lamp: Machine {
  enum State: MachineState {
    case off
    case on
  }

  enum Event: MachineEvent { case press }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.off) {
      When(state: State.off) {
        On(event: Event.press) { Transition(to: State.on) }
      }

      When(state: State.on) {
        On(event: Event.press) { Transition(to: State.off) }
      }
    }
  }
}
