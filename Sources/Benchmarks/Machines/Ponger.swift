import PipeRuntime

/// Sends back what it gets.
enum Ponger: Machine {
  enum State: MachineState, SynthesizedCodable {
    case idle
    case answering(sequence: Int, text: String)
  }

  enum Event: MachineEvent, SynthesizedCodable {
    case ping(sequence: Int, text: String)
  }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.idle) {
      When(
        states: OneOf {
          State.idle; State.answering(sequence:text:)
        }
      ) {
        Execute.noOutput
      } transitions: {
        On(event: Event.ping(sequence:text:)) { sequence, text in
          Transition(to: State.answering(sequence: sequence, text: text))
        }
      }
    }
  }

  static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.answering(sequence:text:),
        send: { sequence, text in Pinger.Event.pong(sequence: sequence, text: text) })
  }
}
