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

  package struct Parameters: MachineParameters {
    /// What it holds at first. Unit: bytes.
    package var byteCount = 0
    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    let text = String(repeating: "x", count: parameters.byteCount)
    return StateMachine(initial: State.holding(met: 0, text: text)) {
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
