import PipeRuntime

/// The panel of a washing machine: the step it is at, and the programs it has finished.
package enum WasherPanel: Machine {
  package enum State: MachineState {
    case showing(step: Int, finished: Int)
  }

  package enum Event: MachineEvent {
    case step(number: Int)
    case finished
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.showing(step: 0, finished: 0)) {
      When(state: State.showing(step:finished:)) { _, _ in
        Execute.noOutput
      } transitions: { step, finished in
        On(event: Event.step(number:)) { number in
          Transition(to: State.showing(step: number, finished: finished))
        }

        On(event: Event.finished) {
          Guard(predicate: step > 0)
        } transition: {
          Transition(to: State.showing(step: 0, finished: finished + 1))
        }
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime().connectAsReceiver(to: ports.pipe("progress"))
  }
}
