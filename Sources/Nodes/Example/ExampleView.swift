import PipeRuntime

/// The example model on a terminal: a and b are its events.
package enum ExampleView: TerminalView {
  package static func body(_ state: ExampleState, size: TerminalSize) -> [StyledLine] {
    let name =
      switch state {
      case .state1: "state 1"
      case .state2: "state 2"
      case .state3: "state 3"
      }
    return [
      StyledLine(name, .bold), StyledLine(state.message),
      StyledLine(state.isStable ? "a and b act" : "", .dim),
    ]
  }

  package static func event(for key: Key, in state: ExampleState) -> ExampleModel.Event? {
    switch key {
    case .character("a"): .eventA
    case .character("b"): .eventB(param: 7)
    default: nil
    }
  }
}
