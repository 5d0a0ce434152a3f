import PipeRuntime

/// Counts the numbers of each route, and the numbers that are out of order.
package enum NumberSink: NumberMachine {
  package enum State: MachineState, Equatable {
    case counting(tallies: Tallies)
  }

  package typealias Event = NumberEvent

  package static func stateMachine(
    _ parameters: NumberParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.counting(tallies: Tallies())) {
      When(state: State.counting(tallies:)) { _ in
        Execute.noOutput
      } transitions: { tallies in
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: State.counting(tallies: tallies.adding(n, of: route)))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NumberParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    LifetimeRecorder.begin(parameters.id)
    return Runtime().connectAsReceiver(to: ports.pipe("in"))
  }

  package static func sent(on entry: State, _ parameters: NumberParameters) -> NumberEvent? { nil }
}
