import PipeRuntime

/// A view of the coordinator's screens: tabs, a stack of screens, and a sheet above them.
package enum NavigationView: TerminalView {
  package struct Screen {
    package var state: MainCoordinator.State
    var tab = TerminalPicker(CoordinatorTab.quizzes)
    var items = TerminalList()

    /// The tabs; `nil` before the login.
    var tabs: NavigationTabs<CoordinatorTab>? {
      if case .authenticated(let tabs) = state.root { tabs } else { nil }
    }
    var hasSheet: Bool {
      switch state.root {
      case .unauthenticated(let stack): stack.sheet != nil
      case .authenticated(let tabs): tabs.stack.sheet != nil
      }
    }
  }

  package static let minimumSize = TerminalSize(columns: 50, rows: 10)
  private static let itemCount = 10
  private static let linkHint = "i shows more"

  package static func screen(of state: MainCoordinator.State) -> Screen {
    var screen = Screen(state: state)
    screen.tab.selected = screen.tabs?.selected ?? .quizzes
    return screen
  }

  package static func update(
    _ screen: inout Screen, to state: MainCoordinator.State, size: TerminalSize
  ) {
    screen.state = state
    screen.tab.selected = screen.tabs?.selected ?? .quizzes
  }

  // MARK: Appearance of the screens

  package static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    let lines =
      switch screen.state.root {
      case .unauthenticated(let stack): unauthenticated(stack)
      case .authenticated(let tabs):
        [screen.tab.line(columns: size.columns), pathLine(tabs.stack)]
          + shown(tabs.stack, screen, size)
      }
    let problem = screen.state.problem.map { [StyledLine($0.reason, .color(.red))] } ?? []
    return lines + problem
  }

  private static func unauthenticated(_ stack: NavigationStack<UnauthenticatedRoute>)
    -> [StyledLine]
  {
    switch stack.shown {
    case .start:
      [
        StyledLine("Welcome", .bold), "", "Enter logs in", "r registers",
        "f sends a new password",
      ]
    case .registration:
      [
        StyledLine("Registration", .bold), "",
        "Another coordinator runs the registration; b goes back",
      ]
    case .forgotPassword: sheet("A new password", "The password is on its way.")
    }
  }

  private static func pathLine(_ stack: NavigationStack<MainRoute>) -> StyledLine {
    StyledLine(stack.path.map(title).joined(separator: " › "), .dim)
  }

  private static func shown(
    _ stack: NavigationStack<MainRoute>, _ screen: Screen, _ size: TerminalSize
  ) -> [StyledLine] {
    switch stack.shown {
    case .quizzes, .results:
      screen.items.lines(of: itemCount, height: size.rows - 4) { "Quiz \($0 + 1)" }
        + [StyledLine("Enter opens, \(linkHint)", .dim)]
    case .detail(let item):
      [StyledLine("Quiz \(item)", .bold), StyledLine("1-9 asks, b goes back, \(linkHint)", .dim)]
    case .question(let item, let number):
      [
        StyledLine("Question \(number) of quiz \(item)", .bold),
        StyledLine("b goes back, \(linkHint)", .dim),
      ]
    case .profile:
      [
        StyledLine(screen.state.user ?? "guest", .bold),
        StyledLine("o logs out, \(linkHint)", .dim),
      ]
    case .information(let subject): sheet("About \(subject)", "A screen like any other.")
    }
  }

  private static func title(_ route: MainRoute) -> String {
    switch route {
    case .quizzes: "Quizzes"
    case .results: "Results"
    case .profile: "Profile"
    case .detail(let item): "Quiz \(item)"
    case .question(_, let number): "Question \(number)"
    case .information(let subject): "About \(subject)"
    }
  }

  private static func sheet(_ title: String, _ text: String) -> [StyledLine] {
    let edge = String(repeating: "─", count: 40)
    return [
      StyledLine("┌\(edge)┐"), StyledLine("│ ") + StyledLine(title, .bold),
      StyledLine("│ \(text)"), StyledLine("└\(edge)┘"), StyledLine("d closes it", .dim),
    ]
  }

  // MARK: Keys of the screens

  package static func press(
    _ key: Key, in screen: inout Screen, size: TerminalSize
  ) -> MainCoordinator.Event? {
    if screen.hasSheet { return key == .character("d") || key == .escape ? .dismiss : nil }
    guard let tabs = screen.tabs else { return unauthenticated(key) }
    if screen.tab.press(key) {
      return screen.tab.selected == tabs.selected ? nil : .switchTo(tab: screen.tab.selected)
    }
    return authenticated(key, &screen, tabs.stack.top, size)
  }

  private static func unauthenticated(_ key: Key) -> MainCoordinator.Event? {
    switch key {
    case .enter: .logIn
    case .character("r"): .register
    case .character("f"): .forgotPassword
    case .character("b"), .backspace: .pop
    default: nil
    }
  }

  private static func authenticated(
    _ key: Key, _ screen: inout Screen, _ route: MainRoute, _ size: TerminalSize
  ) -> MainCoordinator.Event? {
    switch (key, route) {
    case (.character("b"), _), (.backspace, _): return .pop
    case (.character("i"), _): return .openSheet(about: title(route))
    case (.character("o"), .profile): return .logOut
    case (.character(let digit), .detail): return digit.wholeNumberValue.map { .answer(number: $0) }
    case (.enter, .quizzes), (.enter, .results):
      return screen.items.selected(of: itemCount).map { .open(item: $0 + 1) }
    case (_, .quizzes), (_, .results):
      _ = screen.items.press(key, of: itemCount, height: size.rows - 4)
      return nil
    default: return nil
    }
  }
}
