import PipeRuntime

/// Refuses every tenth number, and passes on the other numbers with new consecutive numbers.
package enum NumberFilter: NumberMachine {
  package enum State: MachineState, Equatable {
    case idle
    case passed(route: String, n: Int, tallies: Tallies)
  }

  package typealias Event = NumberEvent

  private static let refused = 10

  package static func stateMachine(
    _ parameters: NumberParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        Execute.noOutput
      } transitions: {
        On(event: Event.number(route:n:)) { _, n in
          Guard(predicate: !n.isMultiple(of: refused))
        } transition: { route, n in
          Transition(to: passed(route, n, Tallies()))
        }
      }

      When(state: State.passed(route:n:tallies:)) { _, _, _ in
        Execute.noOutput
      } transitions: { _, _, tallies in
        On(event: Event.number(route:n:)) { _, n in
          Guard(predicate: !n.isMultiple(of: refused))
        } transition: { route, n in
          Transition(to: passed(route, n, tallies))
        }
      }
    }
  }

  private static func passed(_ route: String, _ n: Int, _ tallies: Tallies) -> State {
    let tallies = tallies.adding(n, of: route, refused: refused)
    return .passed(route: route, n: tallies.routes[route]?.count ?? 0, tallies: tallies)
  }

  package static func runtime(
    _ parameters: NumberParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    LifetimeRecorder.begin(parameters.id)
    return Runtime()
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.passed(route:n:tallies:),
        send: { route, n, _ in NumberEvent.number(route: route + ">" + parameters.id, n: n) })
  }

  package static func sent(on entry: State, _ parameters: NumberParameters) -> NumberEvent? {
    guard case .passed(let route, let n, _) = entry else { return nil }
    return .number(route: route + ">" + parameters.id, n: n)
  }
}
