import PipeRuntime

/// The display of an elevator. It shows the cabin's floor and the number of persons in the cabin.
package enum FloorDisplay: Machine {
  package enum State: MachineState {
    case showing(floor: Int, persons: Int)
  }

  package enum Event: MachineEvent {
    case refresh
    case floor(number: Int)
    case persons(count: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.showing(floor: 0, persons: 0)) {
      When(state: State.showing(floor:persons:)) { _, _ in
        Execute.noOutput
      } transitions: { floor, persons in
        On(event: Event.refresh) {
          Transition(to: State.showing(floor: floor, persons: persons))
        }

        On(event: Event.floor(number:)) { number in
          Transition(to: State.showing(floor: number, persons: persons))
        }

        On(event: Event.persons(count:)) { count in
          Transition(to: State.showing(floor: floor, persons: count))
        }
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime().connectAsReceiver(to: ports.pipe("updates"))
  }
}
