import PipeRuntime

/// Accepts the synchronized event `meet` while it is willing, and takes steps of its own at any
/// time.
package enum Party: Machine {
  package enum State: MachineState, Equatable {
    case willing(met: Int, steps: Int)
    case unwilling(met: Int, steps: Int)

    /// The number of meetings with other parties.
    package var met: Int {
      switch self {
      case .willing(let met, _), .unwilling(let met, _): met
      }
    }
  }

  package enum Event: MachineEvent {
    case meet
    case agree
    case disagree
    case step
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.willing(met: 0, steps: 0)) {
      When(state: State.willing(met:steps:)) { _, _ in
        Execute.noOutput
      } transitions: { met, steps in
        On(event: Event.meet) { Transition(to: State.willing(met: met + 1, steps: steps)) }
        On(event: Event.disagree) { Transition(to: State.unwilling(met: met, steps: steps)) }
        On(event: Event.step) { Transition(to: State.willing(met: met, steps: steps + 1)) }
      }

      When(state: State.unwilling(met:steps:)) { _, _ in
        Execute.noOutput
      } transitions: { met, steps in
        On(event: Event.agree) { Transition(to: State.willing(met: met, steps: steps)) }
        On(event: Event.step) { Transition(to: State.unwilling(met: met, steps: steps + 1)) }
      }
    }
  }
}
