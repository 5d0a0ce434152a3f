import PipeRuntime

/// Sends events through a port to parties on request. Some of the events are synchronized.
package enum Ringer: Machine {
  package enum State: MachineState, Equatable {
    case idle
    case ringing(times: Int)
    case nudging(times: Int)
  }

  package enum Event: MachineEvent {
    /// Sends `meet`.
    case ring
    /// Sends `step`.
    case nudge
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        Execute.noOutput
      } transitions: {
        On(event: Event.ring) { Transition(to: State.ringing(times: 1)) }
        On(event: Event.nudge) { Transition(to: State.nudging(times: 1)) }
      }
      When(state: State.ringing(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.ring) { Transition(to: State.ringing(times: times + 1)) }
        On(event: Event.nudge) { Transition(to: State.nudging(times: 1)) }
      }
      When(state: State.nudging(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.ring) { Transition(to: State.ringing(times: 1)) }
        On(event: Event.nudge) { Transition(to: State.nudging(times: times + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsSender(
        to: ports.pipe("out"), when: State.ringing(times:), send: { _ in Party.Event.meet }
      )
      .connectAsSender(
        to: ports.pipe("out"), when: State.nudging(times:), send: { _ in Party.Event.step })
  }
}
