import PipeRuntime

/// Lets persons pass while it is open.
package enum Gate: Machine {
  package enum State: MachineState, Equatable {
    case shut(passed: Int)
    case open(passed: Int)
  }

  package enum Event: MachineEvent {
    case pass
    case open
    case shut
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.shut(passed: 0)) {
      When(state: State.shut(passed:)) { _ in
        Execute.noOutput
      } transitions: { passed in
        On(event: Event.open) { Transition(to: State.open(passed: passed)) }
      }

      When(state: State.open(passed:)) { _ in
        Execute.noOutput
      } transitions: { passed in
        On(event: Event.pass) { Transition(to: State.open(passed: passed + 1)) }
        On(event: Event.shut) { Transition(to: State.shut(passed: passed)) }
      }
    }
  }
}

/// Counts how many times it is pressed.
package enum Button: Machine {
  package enum State: MachineState, Equatable {
    case pressed(times: Int)
  }

  package enum Event: MachineEvent {
    case press
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.pressed(times: 0)) {
      When(state: State.pressed(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.press) { Transition(to: State.pressed(times: times + 1)) }
      }
    }
  }
}
