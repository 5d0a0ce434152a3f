import PipeRuntime

/// A philosopher on a terminal, who needs no keys.
package enum PhilosopherView: TerminalView {
  package static func body(_ state: Philosopher.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .thinking: [StyledLine("○ thinking", .dim)]
    case .eating: [StyledLine("● eating", .bold, .color(.green))]
    }
  }
}

/// A fork on a terminal.
package enum ForkView: TerminalView {
  package static func body(_ state: Fork.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .free: [StyledLine("ψ on the table", .dim)]
    case .held: [StyledLine("ψ in use", .bold)]
    }
  }
}
