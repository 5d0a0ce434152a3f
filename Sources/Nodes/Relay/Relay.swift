import PipeRuntime

/// A link in a chain of relays. Each link passes each token to the next link.
package enum Relay: Machine {
  package enum State: MachineState {
    case idle
    case passing(n: Int, count: Int)
  }

  package enum Event: MachineEvent {
    case token(n: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        Execute.noOutput
      } transitions: {
        On(event: Event.token(n:)) { n in
          Transition(to: State.passing(n: n, count: 1))
        }
      }

      When(state: State.passing(n:count:)) { _, _ in
        Execute.noOutput
      } transitions: { _, count in
        On(event: Event.token(n:)) { n in
          Transition(to: State.passing(n: n, count: count + 1))
        }
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime()
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(
        to: ports.pipe("out"), when: State.passing(n:count:),
        send: { n, _ in Event.token(n: n) })
  }
}

/// A view of a relay. The key t sends the next token to the relay.
package enum RelayView: TerminalView {
  package static func body(_ state: Relay.State, size: TerminalSize) -> [StyledLine] {
    let (count, last) = passed(state)
    return [
      StyledLine(count == 1 ? "1 token" : "\(count) tokens", .bold),
      StyledLine(last.map { "the last one is \($0)" } ?? "none has passed yet"),
      StyledLine("t sends a token", .dim),
    ]
  }

  package static func event(for key: Key, in state: Relay.State) -> Relay.Event? {
    key == .character("t") ? .token(n: passed(state).count + 1) : nil
  }

  private static func passed(_ state: Relay.State) -> (count: Int, last: Int?) {
    switch state {
    case .idle: (0, nil)
    case .passing(let n, let count): (count, n)
    }
  }
}

/// A view of a relay chain's tally.
package enum RelayTallyView: TerminalView {
  package static func body(_ state: Tally.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .counted(let count, let last):
      [StyledLine(count == 1 ? "1 token" : "\(count) tokens", .bold), "the last one is \(last)"]
    }
  }
}

/// Counts the tokens that reach the end of a chain of relays.
package enum Tally: Machine {
  package enum State: MachineState {
    case counted(count: Int, last: Int)
  }

  package enum Event: MachineEvent {
    case token(n: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.counted(count: 0, last: 0)) {
      When(state: State.counted(count:last:)) { _, _ in
        Execute.noOutput
      } transitions: { count, _ in
        On(event: Event.token(n:)) { n in
          Transition(to: State.counted(count: count + 1, last: n))
        }
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}
