import PipeRuntime

/// A counter on a terminal: + and - count.
package enum CounterView: TerminalView {
  package static func body(_ state: CounterFeature.State, size: TerminalSize) -> [StyledLine] {
    [StyledLine("\(state.count)", .bold), StyledLine("+ and - count", .dim)]
  }

  package static func event(
    for key: Key, in state: CounterFeature.State
  ) -> CounterFeature.Action? {
    switch key {
    case .character("+"), .up: .increment
    case .character("-"), .down: .decrement
    default: nil
    }
  }
}

/// The parent of a counter on a terminal: r begins anew.
package enum TallyView: TerminalView {
  package static func body(_ state: TallyFeature.State, size: TerminalSize) -> [StyledLine] {
    [
      StyledLine("\(state.counter.count)", .bold),
      "\(state.increments) up, \(state.decrements) down",
      StyledLine("r begins anew", .dim),
    ]
  }

  package static func event(for key: Key, in state: TallyFeature.State) -> TallyFeature.Action? {
    key == .character("r") ? .reset : nil
  }
}
