import PipeRuntime

/// Sends the numbers 1, 2, 3… on the event `go`, as fast as its pipe accepts them, until it has
/// sent all of them or gets the event `halt`.
package enum Source: Machine {
  package enum State: MachineState, Equatable {
    case idle(sent: Int)
    case sending(n: Int, until: Int)
  }

  package enum Event: MachineEvent {
    /// Sends `count` more numbers.
    case go(count: Int)
    case next
    /// Stops after the current number.
    case halt
  }

  package enum Output: MachineOutput {
    case goOn
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.idle(sent: 0)) {
      When(state: State.idle(sent:)) { _ in
        Execute.noOutput
      } transitions: { sent in
        On(event: Event.go(count:)) { count in
          Guard(predicate: count > 0)
        } transition: { count in
          Transition(to: State.sending(n: sent + 1, until: sent + count))
        }
      }

      When(state: State.sending(n:until:)) { _, _ in
        Execute(output: Output.goOn)
      } transitions: { n, until in
        On(event: Event.next) {
          Transition(
            to: n < until ? State.sending(n: n + 1, until: until) : State.idle(sent: n))
        }
        On(event: Event.halt) {
          Transition(to: State.idle(sent: n))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(output: Output.goOn, to: { Event.next })
      .connectAsSender(
        to: ports.pipe("out"), when: State.sending(n:until:),
        send: { n, _ in Sink.Event.number(n: n) })
  }
}
