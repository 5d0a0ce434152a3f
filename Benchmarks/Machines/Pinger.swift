import PipeRuntime

/// Sends an event, waits until the event returns, and sends the next event. Reports the total time
/// at the end.
enum Pinger: Machine {
  enum State: MachineState, SynthesizedCodable {
    case idle
    case starting
    case waiting(sequence: Int, since: Int64)
    case stopping(since: Int64)
    case done(nanoseconds: Int64, count: Int)
  }

  enum Event: MachineEvent, SynthesizedCodable {
    case start
    case clockShows(nanoseconds: Int64)
    case pong(sequence: Int, text: String)
  }

  enum Output: MachineOutput { case readClock }

  struct Parameters: MachineParameters {
    /// The number of round trips.
    var count = 10_000
  }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    let last = Payload.firstSequence + parameters.count - 1
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

      When(state: State.starting) {
        Execute(output: Output.readClock)
      } transitions: {
        On(event: Event.clockShows(nanoseconds:)) { now in
          Transition(to: State.waiting(sequence: Payload.firstSequence, since: now))
        }
      }

      When(state: State.waiting(sequence:since:)) { _, _ in
        Execute.noOutput
      } transitions: { sequence, since in
        On(event: Event.pong(sequence:text:)) { answered, _ in
          Guard(predicate: answered == sequence)
        } transition: { _, _ in
          Transition(
            to: sequence == last
              ? State.stopping(since: since)
              : State.waiting(sequence: sequence + 1, since: since))
        }
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
    Runtime()
      .map(
        output: Output.readClock, to: { Event.clockShows(nanoseconds: Clock.nanoseconds) }
      )
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.waiting(sequence:since:),
        send: { sequence, _ in Ponger.Event.ping(sequence: sequence, text: Payload.text) })
  }
}

/// Sends each event back to the sender.
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
