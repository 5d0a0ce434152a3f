import PipeRuntime

/// Receives secrets, and passes them on while it listens. A secret can be decoded, but not encoded.
package enum Confidant: Machine {
  package enum State: MachineState, Equatable {
    case deaf
    case listening(heard: Int)
  }

  package enum Event: MachineEvent {
    case listen
    case secret(Secret)
  }

  /// A value that cannot be sent, because encoding it throws an error.
  package struct Secret: Codable, Hashable, Sendable {
    private let length: Int

    package init(_ text: String) { length = text.utf8.count }
    package init(from decoder: any Decoder) throws {
      self.init(try decoder.singleValueContainer().decode(String.self))
    }
    package func encode(to encoder: any Encoder) throws { throw Discretion() }
  }

  package struct Discretion: Error, CustomStringConvertible {
    package var description: String { "a secret cannot be encoded" }
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.deaf) {
      When(state: State.deaf) {
        Execute.noOutput
      } transitions: {
        On(event: Event.listen) { Transition(to: State.listening(heard: 0)) }
      }

      When(state: State.listening(heard:)) { _ in
        Execute.noOutput
      } transitions: { heard in
        On(event: Event.secret) { _ in Transition(to: State.listening(heard: heard + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsSender(
      to: ports.pipe("out"), when: State.listening(heard:),
      send: { _ in Event.secret(Secret("hush")) })
  }
}
