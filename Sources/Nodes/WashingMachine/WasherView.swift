import PipeRuntime

/// The washing machine on a terminal: its steps, and the one that it is at.
package enum WasherView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 24, rows: 9)

  package static func body(_ state: WashingMachine.State, size: TerminalSize) -> [StyledLine] {
    let steps: [(WashingMachine.State, String)] = [
      (.coldAndEmpty, "cold and empty"), (.fullWithHotWater, "full with hot water"),
      (.waterHeated, "water heated"), (.drumAgitating, "drum agitating"), (.pumping, "pumping"),
      (.fullWithColdWater, "full with cold water"), (.spinning, "spinning"),
    ]
    return steps.map { step, text in
      step == state
        ? StyledLine("▶ ", .color(.green)) + StyledLine(text, .bold) : "  " + StyledLine(text, .dim)
    } + ["", StyledLine(state == .coldAndEmpty ? "s starts" : "", .dim)]
  }

  package static func event(
    for key: Key, in state: WashingMachine.State
  ) -> WashingMachine.Event? {
    key == .character("s") || key == .enter ? .start : nil
  }
}

/// The panel of the washing machine on a terminal.
package enum WasherPanelView: TerminalView {
  package static func body(_ state: WasherPanel.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .showing(let step, let finished):
      [
        StyledLine(step == 0 ? "ready" : "step \(step)", .bold),
        StyledLine(finished == 1 ? "1 program done" : "\(finished) programs done", .dim),
      ]
    }
  }
}
