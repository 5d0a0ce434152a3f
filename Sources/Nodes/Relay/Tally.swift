import PipeRuntime

/// Counts the tokens that reach the end of a chain.
package enum Tally: Machine {
  package enum State: MachineState {
    case counted(count: Int, last: Int)
  }

  package enum Event: MachineEvent {
    case token(n: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.counted(count: 0, last: 0)) {
      When(state: State.counted(count:last:)) { _, _ in
        Execute.noOutput
      } transitions: { count, _ in
        On(event: Event.token(n:)) { n in
          Transition(to: State.counted(count: count + 1, last: n))
        }
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}
