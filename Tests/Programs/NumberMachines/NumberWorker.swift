import PipeRuntime

/// Runs an effect for each number, and then passes the number on. Meanwhile it refuses other
/// numbers, which must be postponed.
package enum NumberWorker: NumberMachine {
  package enum State: MachineState, Equatable {
    case idle
    case working(route: String, n: Int, tallies: Tallies)
    case passed(route: String, n: Int, tallies: Tallies)
  }

  package typealias Event = NumberEvent

  package enum Output: MachineOutput {
    case work(count: Int)
  }

  package static func stateMachine(
    _ parameters: NumberParameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        Execute.noOutput
      } transitions: {
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: State.working(route: route, n: n, tallies: Tallies().adding(n, of: route)))
        }
      }

      When(state: State.working(route:n:tallies:)) { _, _, tallies in
        Execute(output: Output.work(count: tallies.total))
      } transitions: { route, n, tallies in
        On(event: Event.done(count:)) { count in
          // The effect may run twice if the node's process is restarted.
          Guard(predicate: count == tallies.total)
        } transition: { _ in
          Transition(to: State.passed(route: route, n: n, tallies: tallies))
        }
      }

      When(state: State.passed(route:n:tallies:)) { _, _, _ in
        Execute.noOutput
      } transitions: { _, _, tallies in
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: State.working(route: route, n: n, tallies: tallies.adding(n, of: route)))
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
        output: Output.work(count:),
        to: { count in
          try? await Task.sleep(for: .microseconds(parameters.work))
          return answer(to: .work(count: count))
        }
      )
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.passed(route:n:tallies:),
        send: { route, n, _ in NumberEvent.number(route: route + ">" + parameters.id, n: n) })
  }

  package static func sent(on entry: State, _ parameters: NumberParameters) -> NumberEvent? {
    guard case .passed(let route, let n, _) = entry else { return nil }
    return .number(route: route + ">" + parameters.id, n: n)
  }

  package static func answer(to output: Output) -> NumberEvent {
    switch output {
    case .work(let count): .done(count: count)
    }
  }
}
