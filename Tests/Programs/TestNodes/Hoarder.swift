import PipeRuntime

/// Takes the synchronized event `meet`. Its state can be made too large to be published.
package enum Hoarder: Machine {
  package enum State: MachineState, Equatable {
    case holding(met: Int, text: String)
  }

  package enum Event: MachineEvent {
    case meet
    /// Stores a text of this size.
    case grow(byteCount: Int)
  }

  package struct Parameters: MachineParameters {
    /// The size of the initial text. Unit: bytes.
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
