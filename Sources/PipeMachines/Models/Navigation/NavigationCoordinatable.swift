/// An object that knows which screens are shown in a part of a program, and makes them.
///
/// ```swift
/// final class UnauthenticatedCoordinator: NavigationCoordinatable {
///   let stack = CoordinatorStack(initial: \UnauthenticatedCoordinator.start)
///
///   @Root var start = makeStart
///   @Route(.modal) var forgotPassword = makeForgotPassword
///   @Route(.push) var registration = makeRegistration
///
///   func makeStart() -> LoginScreen { LoginScreen(router) }
///   func makeForgotPassword() -> ForgotPasswordScreen { ForgotPasswordScreen() }
///   func makeRegistration() -> RegistrationCoordinator { RegistrationCoordinator() }
/// }
/// ```
///
/// A screen is made when its route is taken, and let go of when it is left. Where it is a coordinator,
/// what that one shows is seen. What may be done is what ``RouteStack`` lets be done.
///
/// A coordinator whose screens are nodes is a machine: keep a ``RouteStack`` in its state.
@MainActor
public protocol NavigationCoordinatable: AnyObject {
  /// The screens that are shown.
  var stack: CoordinatorStack<Self> { get }

  /// What screens ask for other screens.
  typealias Router = CoordinatorRouter<Self>
}

extension NavigationCoordinatable {
  /// What screens ask for other screens. It does not keep the coordinator.
  public var router: CoordinatorRouter<Self> { CoordinatorRouter(self) }

  /// What is seen: the sheet or the topmost screen, and of a coordinator there what it shows.
  public var shown: Any {
    let screen = stack.shown(of: self)
    return (screen as? any NavigationCoordinatable)?.shown ?? screen
  }

  /// The screens of this coordinator alone, the root first, without the sheet.
  public var screens: [Any] { stack.screens(of: self) }

  /// The sheet over them.
  public var sheet: Any? { stack.sheet(of: self) }

  /// Makes its root's screen, and remembers how it is left.
  func start(leave: @escaping @MainActor () throws(NavigationError) -> Void) {
    stack.leave = leave
    _ = stack.shown(of: self)
  }
}

/// What is shown to those who have not logged in, and to those who have.
public enum NavigationRoot<Unauthenticated, Authenticated>: Codable, Hashable, Sendable
where
  Unauthenticated: Codable & Hashable & Sendable, Authenticated: Codable & Hashable & Sendable
{
  /// Nobody is logged in.
  case unauthenticated(screens: Unauthenticated)
  /// Somebody is.
  case authenticated(screens: Authenticated)

  /// Whether somebody is logged in.
  public var isAuthenticated: Bool {
    if case .authenticated = self { true } else { false }
  }

  /// Goes over to what is shown to those who have logged in.
  public mutating func logIn(to screens: Authenticated) throws(NavigationError) {
    guard !isAuthenticated else { throw .authenticated }
    self = .authenticated(screens: screens)
  }

  /// Goes back; what was shown is forgotten.
  public mutating func logOut(to screens: Unauthenticated) throws(NavigationError) {
    guard isAuthenticated else { throw .unauthenticated }
    self = .unauthenticated(screens: screens)
  }

  /// Changes the screens of those who have logged in.
  public mutating func whenAuthenticated(
    _ change: (inout Authenticated) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    guard case .authenticated(var screens) = self else { throw .unauthenticated }
    try change(&screens)
    self = .authenticated(screens: screens)
  }

  /// Changes the screens of those who have not logged in.
  public mutating func whenUnauthenticated(
    _ change: (inout Unauthenticated) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    guard case .unauthenticated(var screens) = self else { throw .authenticated }
    try change(&screens)
    self = .unauthenticated(screens: screens)
  }
}

/// Tabs, one of them selected, each with its own stack.
public struct NavigationTabs<Tab: TabType>: Codable, Hashable, Sendable {
  /// The tab that is shown.
  public private(set) var selected: Tab
  /// The stacks of the tabs that show more than their root.
  private var stacks: [Tab: RouteStack<Tab.Route>] = [:]

  /// Shows a tab; all of them show their roots.
  public init(selected: Tab) { self.selected = selected }

  /// The stack of a tab.
  public subscript(tab: Tab) -> RouteStack<Tab.Route> {
    stacks[tab] ?? RouteStack(root: tab.root)
  }

  /// The stack of the selected tab.
  public var stack: RouteStack<Tab.Route> { self[selected] }

  /// What is seen.
  public var shown: Tab.Route { stack.shown }

  /// Selects a tab, whose stack is as it was left. The selected one goes back to its root.
  public mutating func select(_ tab: Tab) throws(NavigationError) {
    if tab == selected { try change { stack throws(NavigationError) in try stack.popToRoot() } }
    selected = tab
  }

  /// Changes the stack of the selected tab.
  public mutating func change(
    _ change: (inout RouteStack<Tab.Route>) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    var stack = stack
    try change(&stack)
    stacks[selected] = stack == RouteStack(root: selected.root) ? nil : stack
  }

  /// Selects the tab whose root the path begins with, and shows the path's screens there.
  public mutating func show(_ path: [Tab.Route]) throws(NavigationError) {
    guard let tab = Tab.allCases.first(where: { $0.root == path.first }) else {
      throw .otherRoot(
        path.first.map { "\($0)" } ?? "an empty path", known: Tab.allCases.map { "\($0.root)" })
    }
    var copy = self
    copy.selected = tab
    try copy.change { stack throws(NavigationError) in try stack.show(path) }
    self = copy
  }
}
