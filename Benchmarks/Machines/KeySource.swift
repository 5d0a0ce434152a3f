import PipeRuntime

/// Sends events with keys as fast as the receiver accepts them.
enum KeySource: Machine {
  enum State: MachineState, SynthesizedCodable {
    case idle
    /// The numbers from which keys are made: the next number, and the end and the beginning of
    /// their range.
    case sending(next: Int, end: Int, first: Int, times: Int)
    case sent
  }

  enum Event: MachineEvent, SynthesizedCodable {
    /// Sends an event for each number of a range, and repeats the range several times.
    case send(first: Int, end: Int, times: Int)
    case token
  }

  /// The number of events that one step sends.
  static let burst = 32

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.idle) {
      When(
        states: OneOf {
          State.idle; State.sent
        }
      ) {
        Execute.noOutput
      } transitions: {
        On(event: Event.send(first:end:times:)) { first, end, times in
          Transition(to: State.sending(next: first, end: end, first: first, times: times))
        }
        // Accept the last token.
        On(event: Event.token) { Transition(to: State.sent) }
      }
      When(state: State.sending(next:end:first:times:)) { _, _, _, _ in
        Execute.noOutput
      } transitions: { next, end, first, times in
        On(event: Event.token) {
          if next + burst < end {
            Transition(
              to: State.sending(next: next + burst, end: end, first: first, times: times))
          } else if times > 1 {
            Transition(to: State.sending(next: first, end: end, first: first, times: times - 1))
          } else {
            Transition(to: State.sent)
          }
        }
      }
    }
  }

  static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    var runtime = Runtime<State, Event, Never>()
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("again"), when: State.sending(next:end:first:times:), send: Event.token)
    for offset in 0..<burst {
      runtime = runtime.connectAsSender(
        to: ports.pipe("out"), when: State.sending(next:end:first:times:),
        send: { next, _, _, _ in Visitor.Event.visit(key: key(next + offset)) })
    }
    return runtime
  }

  /// Returns the key that is made from a number. Keys of consecutive numbers are far apart in the
  /// sort order.
  static func key(_ number: Int) -> String {
    "order-" + String(UInt64(number) &* 0x9E37_79B9_7F4A_7C15, radix: 16)
  }
}

/// Counts the events of one key.
enum Visitor: Machine {
  enum State: MachineState, SynthesizedCodable {
    case new
    case visited(times: Int)
  }

  enum Event: MachineEvent, SynthesizedCodable { case visit(key: String) }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.new) {
      When(state: State.new) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.visit(key:)) { _ in Transition(to: State.visited(times: 1)) }
      }
      When(state: State.visited(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.visit(key:)) { _ in Transition(to: State.visited(times: times + 1)) }
      }
    }
  }
}
