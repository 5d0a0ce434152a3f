import PipeRuntime

/// Passes numbers on. After every fifth number it closes until an effect opens it. Numbers that
/// arrive while it is closed must be postponed.
package enum NumberGate: NumberMachine {
  package enum State: MachineState, Equatable {
    case open(tallies: Tallies)
    case passed(route: String, n: Int, tallies: Tallies)
    case shut(route: String, n: Int, tallies: Tallies)
  }

  package typealias Event = NumberEvent

  package enum Output: MachineOutput {
    case reopen(count: Int)
  }

  package static func stateMachine(
    _ parameters: NumberParameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.open(tallies: Tallies())) {
      When(state: State.open(tallies:)) { _ in
        Execute.noOutput
      } transitions: { tallies in
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: after(n, route, tallies))
        }
      }

      When(state: State.passed(route:n:tallies:)) { _, _, _ in
        Execute.noOutput
      } transitions: { _, _, tallies in
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: after(n, route, tallies))
        }
      }

      When(state: State.shut(route:n:tallies:)) { _, _, tallies in
        Execute(output: Output.reopen(count: tallies.total))
      } transitions: { _, _, tallies in
        On(event: Event.done(count:)) { count in
          // The effect may run twice if the node's process is restarted.
          Guard(predicate: count == tallies.total)
        } transition: { _ in
          Transition(to: State.open(tallies: tallies))
        }
      }
    }
  }

  private static func after(_ n: Int, _ route: String, _ tallies: Tallies) -> State {
    let tallies = tallies.adding(n, of: route)
    return tallies.total.isMultiple(of: 5)
      ? .shut(route: route, n: n, tallies: tallies)
      : .passed(route: route, n: n, tallies: tallies)
  }

  package static func runtime(
    _ parameters: NumberParameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    LifetimeRecorder.begin(parameters.id)
    return Runtime()
      .map(
        output: Output.reopen(count:),
        to: { count in
          try? await Task.sleep(for: .microseconds(parameters.work))
          return answer(to: .reopen(count: count))
        }
      )
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"),
        when: OneOf {
          State.passed(route:n:tallies:)
          State.shut(route:n:tallies:)
        },
        send: { state in
          sent(on: state, parameters) ?? NumberEvent.number(route: parameters.id, n: 0)
        })
  }

  package static func sent(on entry: State, _ parameters: NumberParameters) -> NumberEvent? {
    switch entry {
    case .open: nil
    case .passed(let route, let n, _), .shut(let route, let n, _):
      .number(route: route + ">" + parameters.id, n: n)
    }
  }

  package static func answer(to output: Output) -> NumberEvent {
    switch output {
    case .reopen(let count): .done(count: count)
    }
  }
}
