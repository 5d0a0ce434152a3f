import PipeRuntime

/// The registration on a terminal: the terms, and then a field for the name.
package enum RegistrationView: TerminalView {
  package struct Screen {
    package var state: RegistrationCoordinator.State
    var name = TerminalTextField(byteLimit: 128)

    var route: RegistrationRoute? {
      if case .shown(let screens) = state { screens.shown } else { nil }
    }
  }

  package static let minimumSize = TerminalSize(columns: 40, rows: 4)

  package static func screen(of state: RegistrationCoordinator.State) -> Screen {
    Screen(state: state)
  }

  package static func update(
    _ screen: inout Screen, to state: RegistrationCoordinator.State, size: TerminalSize
  ) {
    screen.state = state
    if state == .hidden { screen.name.text = "" }
  }

  package static func takesText(_ screen: Screen) -> Bool { screen.route == .name }

  package static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    switch screen.route {
    case .terms:
      [
        StyledLine("Registration", .bold), "There are no terms.", "",
        StyledLine("Enter accepts them, Escape cancels", .dim),
      ]
    case .name:
      [
        StyledLine("Registration", .bold),
        StyledLine("Name  ") + screen.name.line(columns: size.columns - 6, isFocused: true), "",
        StyledLine("Enter registers, Escape goes back", .dim),
      ]
    case nil: [StyledLine("Nobody is registering", .dim)]
    }
  }

  package static func press(
    _ key: Key, in screen: inout Screen, size: TerminalSize
  ) -> RegistrationCoordinator.Event? {
    switch (screen.route, key) {
    case (.terms, .enter): return .accept
    case (.terms, .escape): return .cancel
    case (.name, .enter): return .enter(name: screen.name.text)
    case (.name, .escape): return .back
    case (.name, _):
      _ = screen.name.press(key)
      return nil
    default: return nil
    }
  }
}
