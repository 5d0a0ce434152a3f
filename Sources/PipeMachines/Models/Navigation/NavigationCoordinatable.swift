/// An object that makes and manages the screens in a part of an application.
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
/// A coordinator makes a screen when the screen's route is shown, and releases the screen when the
/// screen is removed from the stack. If the screen is itself a coordinator, that coordinator's
/// visible screen is shown. The rules of ``RouteStack`` decide which changes are allowed.
///
/// If the screens are nodes, write the coordinator as a machine with a ``RouteStack`` in its state.
@MainActor
public protocol NavigationCoordinatable: AnyObject {
  /// The stack of screens.
  var stack: CoordinatorStack<Self> { get }

  /// The interface through which screens show other screens.
  typealias Router = CoordinatorRouter<Self>
}

extension NavigationCoordinatable {
  /// The interface through which screens show other screens. This value does not keep the
  /// coordinator alive.
  public var router: CoordinatorRouter<Self> { CoordinatorRouter(self) }

  /// The visible screen: the sheet, or the topmost screen if there is no sheet. If this screen is a
  /// coordinator, this property is that coordinator's visible screen.
  public var shown: Any {
    let screen = stack.shown(of: self)
    return (screen as? any NavigationCoordinatable)?.shown ?? screen
  }

  /// The screens of this coordinator, the root first. The sheet, and the screens of other
  /// coordinators, are not included.
  public var screens: [Any] { stack.screens(of: self) }

  /// The sheet over the screens; `nil` if no sheet is shown.
  public var sheet: Any? { stack.sheet(of: self) }

  /// Makes the root screen, and stores the function that removes this coordinator from its parent.
  func start(removeFromParent: @escaping @MainActor () throws(NavigationError) -> Void) {
    stack.removeFromParent = removeFromParent
    _ = stack.shown(of: self)
  }
}

/// The screens before and after login.
public enum NavigationRoot<Unauthenticated, Authenticated>: Codable, Hashable, Sendable
where
  Unauthenticated: Codable & Hashable & Sendable, Authenticated: Codable & Hashable & Sendable
{
  /// The user is not logged in.
  case unauthenticated(screens: Unauthenticated)
  /// The user is logged in.
  case authenticated(screens: Authenticated)

  /// Whether the user is logged in.
  public var isAuthenticated: Bool {
    if case .authenticated = self { true } else { false }
  }

  /// Switches to the screens after login. Throws if the user is already logged in.
  public mutating func logIn(to screens: Authenticated) throws(NavigationError) {
    guard !isAuthenticated else { throw .authenticated }
    self = .authenticated(screens: screens)
  }

  /// Switches to the screens before login, and discards the current screens. Throws if the user is
  /// not logged in.
  public mutating func logOut(to screens: Unauthenticated) throws(NavigationError) {
    guard isAuthenticated else { throw .unauthenticated }
    self = .unauthenticated(screens: screens)
  }

  /// Changes the screens of a logged-in user. Throws if the user is not logged in.
  public mutating func whenAuthenticated(
    _ change: (inout Authenticated) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    guard case .authenticated(var screens) = self else { throw .unauthenticated }
    try change(&screens)
    self = .authenticated(screens: screens)
  }

  /// Changes the screens of a user who is not logged in. Throws if the user is logged in.
  public mutating func whenUnauthenticated(
    _ change: (inout Unauthenticated) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    guard case .unauthenticated(var screens) = self else { throw .authenticated }
    try change(&screens)
    self = .unauthenticated(screens: screens)
  }
}

/// A set of tabs, each with its own stack. One tab is selected.
public struct NavigationTabs<Tab: TabType>: Codable, Hashable, Sendable {
  /// The tab that is shown.
  public private(set) var selected: Tab
  /// The stacks of the tabs that show more than their root screen.
  private var stacks: [Tab: RouteStack<Tab.Route>] = [:]

  /// Makes tabs that all show their root screens, and selects one tab.
  public init(selected: Tab) { self.selected = selected }

  /// The stack of a tab.
  public subscript(tab: Tab) -> RouteStack<Tab.Route> {
    stacks[tab] ?? RouteStack(root: tab.root)
  }

  /// The stack of the selected tab.
  public var stack: RouteStack<Tab.Route> { self[selected] }

  /// The visible screen.
  public var shown: Tab.Route { stack.shown }

  /// Selects a tab. The tab shows the stack that it showed when it was last selected. If the tab is
  /// already selected, pops its stack to the root.
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

  /// Selects the tab whose root is the first screen of the path, and shows the screens of the path
  /// in this tab.
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
