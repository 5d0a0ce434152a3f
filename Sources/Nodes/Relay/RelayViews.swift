import PipeRuntime

/// A relay on a terminal: t gives it the next token.
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

/// The end of a chain of relays on a terminal.
package enum RelayTallyView: TerminalView {
  package static func body(_ state: Tally.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .counted(let count, let last):
      [StyledLine(count == 1 ? "1 token" : "\(count) tokens", .bold), "the last one is \(last)"]
    }
  }
}
