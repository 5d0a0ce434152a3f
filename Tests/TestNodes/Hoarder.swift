import PipeRuntime

/// Takes `meet` together with others, in states that may be made too large to be told.
package enum Hoarder: Machine {
  package enum State: MachineState, Equatable {
    case holding(met: Int, text: String)
  }

  package enum Event: MachineEvent {
    case meet
    /// Holds a text of so many bytes.
    case grow(byteCount: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.holding(met: 0, text: "")) {
      When(state: State.holding(met:text:)) { _, _ in
        Execute.noOutput
      } transitions: { met, text in
        On(event: Event.meet) { Transition(to: State.holding(met: met + 1, text: text)) }
        On(event: Event.grow(byteCount:)) { count in
          Transition(to: State.holding(met: met, text: String(repeating: "x", count: count)))
        }
      }
    }
  }
}
