import PipeRuntime

/// A machine with an immediate transition to `away`, and an asynchronous transition back to `here`.
package enum Waverer: Machine {
  package enum State: MachineState, Equatable { case here, away }
  package enum Event: MachineEvent { case go }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.here) {
      When(state: State.here) {
        On(event: Event.go) { Transition(to: State.away) }
      }

      When(state: State.away) {
        On(event: Event.go) {
          await Task.yield()
          return Transition(to: State.here)
        }
      }
    }
  }
}
