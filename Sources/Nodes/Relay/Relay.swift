import PipeRuntime

/// Passes each token on: a link of a chain.
package enum Relay: Machine {
  package enum State: MachineState {
    case idle
    case passing(n: Int, count: Int)
  }

  package enum Event: MachineEvent {
    case token(n: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        Execute.noOutput
      } transitions: {
        On(event: Event.token(n:)) { n in
          Transition(to: State.passing(n: n, count: 1))
        }
      }

      When(state: State.passing(n:count:)) { _, _ in
        Execute.noOutput
      } transitions: { _, count in
        On(event: Event.token(n:)) { n in
          Transition(to: State.passing(n: n, count: count + 1))
        }
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime()
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.passing(n:count:),
        send: { n, _ in Event.token(n: n) })
  }
}
