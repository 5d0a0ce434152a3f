import PipeRuntime

/// Sends texts, which may be very large.
package enum Blob: Machine {
  package enum State: MachineState, Equatable {
    case empty
    case grown(byteCount: Int, text: String)
    case holding(byteCount: Int)
    case shouting(byteCount: Int)
  }

  package enum Event: MachineEvent {
    /// Sends a text of this size without storing it.
    case shout(byteCount: Int)
    /// Stores a text of this size, and sends it.
    case grow(byteCount: Int)
    case take(text: String)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.empty) {
      When(
        states: OneOf {
          State.empty; State.grown(byteCount:text:); State.holding(byteCount:)
          State.shouting(byteCount:)
        }
      ) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.grow(byteCount:)) { count in
          Transition(
            to: State.grown(byteCount: count, text: String(repeating: "x", count: count)))
        }
        On(event: Event.shout(byteCount:)) { count in
          Transition(to: State.shouting(byteCount: count))
        }
        On(event: Event.take(text:)) { text in
          Transition(to: State.holding(byteCount: text.utf8.count))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.grown(byteCount:text:),
        send: { _, text in Event.take(text: text) }
      )
      .connectAsSender(
        to: ports.pipe("out"), when: State.shouting(byteCount:),
        send: { Event.take(text: String(repeating: "x", count: $0)) })
  }
}
