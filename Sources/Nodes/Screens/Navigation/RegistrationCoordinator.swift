import PipeRuntime

/// The screens of a registration.
package enum RegistrationRoute: RouteType {
  case terms
  case name
}

/// A coordinator within the main coordinator. While the main coordinator shows the registration,
/// this coordinator decides which screen of the registration is shown.
package enum RegistrationCoordinator: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case shown(screens: NavigationStack<RegistrationRoute>)
  }

  package enum Event: MachineEvent, Hashable {
    case show
    case hide
    /// The user accepts the terms.
    case accept
    case enter(name: String)
    case back
    /// The user leaves the registration.
    case cancel
  }

  package static func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    switch (state, event) {
    case (_, .hide): return .next(.hidden)
    case (.hidden, .show): return .next(.shown(screens: NavigationStack(root: .terms)))
    // Neither event changes this state. The main coordinator sends `show` again with each of its
    // own steps. On `cancel`, the main coordinator hides the registration.
    case (.shown, .show), (.shown, .cancel): return .next(state)
    case (.shown(let screens), .accept): return changed(screens) { try $0.push(.name) }
    case (.shown(let screens), .back): return changed(screens) { try $0.pop() }
    case (.shown(let screens), .enter(let name)):
      return screens.top == .name && !name.isEmpty ? .next(state) : .refused(.guard)
    case (.hidden, _): return .refused(.noTransition)
    }
  }

  private static func changed(
    _ screens: NavigationStack<RegistrationRoute>,
    _ change: (inout NavigationStack<RegistrationRoute>) throws -> Void
  ) -> Reduction<State> {
    var screens = screens
    do { try change(&screens) } catch { return .refused(.thrown("\(error)")) }
    return .next(.shown(screens: screens))
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .hidden, reduce: reduce)
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("updates"))
      .connectAsSender(
        to: ports.pipe("coordinator"),
        forEachEvent: { event -> MainCoordinator.Event? in
          switch event {
          case .enter(let name): .registered(name: name)
          case .cancel: .pop
          case .show, .hide, .accept, .back: nil
          }
        })
  }
}

/// A view of the registration: first the terms, then a field for the name.
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
    case nil: [StyledLine("No registration in progress", .dim)]
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
