import PipeRuntime

/// A view of a button. The space bar presses the button.
package enum ButtonView: TerminalView {
  package static func body(_ state: Button.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .pressed(let times): ["pressed \(times) times"]
    }
  }

  package static func event(for key: Key, in state: Button.State) -> Button.Event? {
    key == .character(" ") ? .press : nil
  }
}

/// A view that crashes if the button has been pressed.
package enum FragileView: TerminalView {
  package static func body(_ state: Button.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .pressed(let times):
      precondition(times == 0, "cannot show that")
      return ["not pressed"]
    }
  }

  package static func event(for key: Key, in state: Button.State) -> Button.Event? { .press }
}
