import PipeRuntime

/// Sends events as fast as the receiver accepts them. Reports the time until the receiver has
/// processed the last event.
///
/// The machine sends tokens to itself. Each token causes a step, which sends a burst of events and
/// the token again.
enum Source: Machine {
  enum State: MachineState, SynthesizedCodable {
    case idle
    case starting
    case sending(next: Int, since: Int64)
    case sent(since: Int64)
    case stopping(since: Int64)
    case done(nanoseconds: Int64, count: Int)
  }

  enum Event: MachineEvent, SynthesizedCodable {
    case start
    case clockShows(nanoseconds: Int64)
    case token
    /// The sink has processed the last event.
    case complete
  }

  enum Output: MachineOutput { case readClock }

  struct Parameters: MachineParameters {
    /// The number of events to send; a multiple of `burst`.
    var count = 1_000_000
    /// The number of events that one step sends.
    var burst = 8
    /// The number of tokens in flight.
    var tokens = 32
    /// Whether the events have a payload.
    var hasPayload = true
  }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    let end = Payload.firstSequence + parameters.count
    return StateMachine(initial: State.idle) {
      When(
        states: OneOf {
          State.idle; State.done(nanoseconds:count:)
        }
      ) {
        Execute.noOutput
      } transitions: {
        On(event: Event.start) { Transition(to: State.starting) }
      }

      // Tokens that arrive in this state are postponed until the machine sends.
      When(state: State.starting) {
        Execute(output: Output.readClock)
      } transitions: {
        On(event: Event.clockShows(nanoseconds:)) { now in
          Transition(to: State.sending(next: Payload.firstSequence, since: now))
        }
      }

      When(state: State.sending(next:since:)) { _, _ in
        Execute.noOutput
      } transitions: { next, since in
        On(event: Event.token) {
          Transition(
            to: next + parameters.burst < end
              ? State.sending(next: next + parameters.burst, since: since)
              : State.sent(since: since))
        }
      }

      // Accept the remaining tokens.
      When(state: State.sent(since:)) { _ in
        Execute.noOutput
      } transitions: { since in
        On(event: Event.token) { Transition(to: State.sent(since: since)) }
        On(event: Event.complete) { Transition(to: State.stopping(since: since)) }
      }

      When(state: State.stopping(since:)) { _ in
        Execute(output: Output.readClock)
      } transitions: { since in
        On(event: Event.clockShows(nanoseconds:)) { now in
          Transition(to: State.done(nanoseconds: now - since, count: parameters.count))
        }
      }
    }
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Output> {
    var runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.readClock, to: { Event.clockShows(nanoseconds: Clock.nanoseconds) }
      )
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("again"), when: State.sending(next:since:), send: Event.token)
    for _ in 0..<(parameters.tokens - 1) {
      runtime = runtime.connectAsSender(
        to: ports.pipe("again"), when: State.starting, send: Event.token)
    }
    let hasPayload = parameters.hasPayload
    for offset in 0..<parameters.burst {
      runtime = runtime.connectAsSender(
        to: ports.pipe("out"), when: State.sending(next:since:),
        send: { next, _ in
          hasPayload
            ? Sink.Event.reading(sequence: next + offset, text: Payload.text) : Sink.Event.tick
        })
    }
    return runtime
  }
}
