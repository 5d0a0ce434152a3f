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
