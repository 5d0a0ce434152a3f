import PipeRuntime

/// Counts the numbers of each route, and records the numbers that are out of sequence.
package enum NumberSink: NumberMachine {
  package enum State: MachineState, Equatable {
    case advancingHistory(tallies: Tallies)
  }

  package typealias Event = NumberEvent

  package static func stateMachine(
    _ parameters: NumberParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.advancingHistory(tallies: Tallies())) {
      When(state: State.advancingHistory(tallies:)) { _ in
        Execute.noOutput
      } transitions: { tallies in
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: State.advancingHistory(tallies: tallies.adding(n, of: route)))
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
