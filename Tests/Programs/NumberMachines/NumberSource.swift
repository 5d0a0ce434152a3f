import PipeRuntime

/// Sends the numbers 1, 2, 3… up to a requested number, and counts the orders of clients.
package enum NumberSource: NumberMachine {
  package enum State: MachineState, Equatable {
    /// The source pauses, or has sent all requested numbers. Entering this state sends nothing.
    case waiting(sent: Int, until: Int, orders: Tallies)
    case sending(n: Int, until: Int, orders: Tallies)
  }

  package typealias Event = NumberEvent

  package enum Output: MachineOutput {
    case pause(after: Int)
  }

  package static func stateMachine(
    _ parameters: NumberParameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.waiting(sent: 0, until: 0, orders: Tallies())) {
      When(state: State.waiting(sent:until:orders:)) { _, _, _ in
        Execute.noOutput
      } transitions: { sent, until, orders in
        On(event: Event.go(until:)) { new in
          Guard(predicate: new > until)
        } transition: { new in
          // A source that has numbers to send is in a pause, after which it continues by itself.
          Transition(
            to: sent < until
              ? State.waiting(sent: sent, until: new, orders: orders)
              : State.sending(n: sent + 1, until: new, orders: orders))
        }
        On(event: Event.next(after:)) { n in
          Guard(predicate: n == sent && sent < until)
        } transition: { _ in
          Transition(to: State.sending(n: sent + 1, until: until, orders: orders))
        }
        On(event: Event.order(n:)) { n in
          Transition(
            to: State.waiting(sent: sent, until: until, orders: orders.adding(n, of: "client")))
        }
      }

      When(state: State.sending(n:until:orders:)) { n, _, _ in
        Execute(output: Output.pause(after: n))
      } transitions: { n, until, orders in
        On(event: Event.go(until:)) { new in
          Guard(predicate: new > until)
        } transition: { new in
          Transition(to: State.waiting(sent: n, until: new, orders: orders))
        }
        On(event: Event.next(after:)) { after in
          // The effect may run twice if the node's process is restarted.
          Guard(predicate: after == n)
        } transition: { _ in
          Transition(
            to: n < until
              ? State.sending(n: n + 1, until: until, orders: orders)
              : State.waiting(sent: n, until: until, orders: orders))
        }
        On(event: Event.order(n:)) { order in
          Transition(
            to: State.waiting(sent: n, until: until, orders: orders.adding(order, of: "client")))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NumberParameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    LifetimeRecorder.begin(parameters.id)
    return Runtime()
      .map(
        output: Output.pause(after:),
        to: { n in
          if n.isMultiple(of: max(1, parameters.burst)) {
            try? await Task.sleep(for: .microseconds(parameters.pause))
          }
          return answer(to: .pause(after: n))
        }
      )
      .connectAsSender(
        to: ports.pipe("out"), when: State.sending(n:until:orders:),
        send: { n, _, _ in NumberEvent.number(route: parameters.id, n: n) })
  }

  package static func sent(on entry: State, _ parameters: NumberParameters) -> NumberEvent? {
    guard case .sending(let n, _, _) = entry else { return nil }
    return .number(route: parameters.id, n: n)
  }

  package static func answer(to output: Output) -> NumberEvent {
    switch output {
    case .pause(let n): .next(after: n)
    }
  }
}
