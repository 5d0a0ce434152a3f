import PipeRuntime

/// A view that shows the number of turns. The key t sends `turn`, and f sends `fail`.
package enum TurnerView: TerminalView {
  package static func body(_ state: Turner.State, size: TerminalSize) -> [StyledLine] {
    [StyledLine("turned \(state.turns.count) times")]
  }

  package static func event(for key: Key, in state: Turner.State) -> Turner.Event? {
    switch key {
    case .character("t"): .turn
    case .character("f"): .fail
    default: nil
    }
  }
}
