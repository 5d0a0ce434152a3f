/// The way in which the screen of a route is presented.
public enum PresentationType: Hashable, Sendable {
  /// The screen is pushed onto the stack.
  case push
  /// The screen is presented as a sheet over the stack.
  case modal
}

/// The way in which the screen of a route is made and presented. Coordinators declare routes with
/// ``Root`` and ``Route``.
@MainActor
public struct CoordinatorTransition<Coordinator: NavigationCoordinatable, Input, Screen> {
  /// How the screen is presented; `nil` for a root.
  let presentation: PresentationType?
  let make: @MainActor (Coordinator, Input) -> Screen
}

/// A screen at the bottom of a coordinator's stack, made by a method of the coordinator.
///
/// ```swift
/// @Root var start = makeStart
/// ```
@MainActor
@propertyWrapper
public struct Root<Coordinator: NavigationCoordinatable, Screen> {
  /// The transition to the screen.
  public let wrappedValue: CoordinatorTransition<Coordinator, Void, Screen>

  /// Makes a root from a transition.
  public init(wrappedValue: CoordinatorTransition<Coordinator, Void, Screen>) {
    self.wrappedValue = wrappedValue
  }
}

extension Root {
  /// Makes a root from the method that makes its screen.
  public init(wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor () -> Screen) {
    wrappedValue = CoordinatorTransition(presentation: nil) { coordinator, _ in
      make(coordinator)()
    }
  }
}

/// A screen above other screens, made by a method of the coordinator. The screen can itself be a
/// coordinator.
///
/// ```swift
/// @Route(.modal) var forgotPassword = makeForgotPassword
/// @Route(.push) var quiz = makeQuiz(id:)
/// ```
@MainActor
@propertyWrapper
public struct Route<Coordinator: NavigationCoordinatable, Input, Screen> {
  /// The transition to the screen.
  public let wrappedValue: CoordinatorTransition<Coordinator, Input, Screen>

  /// Makes a route from a transition.
  public init(wrappedValue: CoordinatorTransition<Coordinator, Input, Screen>) {
    self.wrappedValue = wrappedValue
  }
}

extension Route {
  /// Makes a route from the method that makes its screen from the route's input.
  public init(
    wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor (Input) -> Screen,
    _ presentation: PresentationType
  ) {
    wrappedValue = CoordinatorTransition(presentation: presentation) { coordinator, input in
      make(coordinator)(input)
    }
  }
}

extension Route where Input == Void {
  /// Makes a route from the method that makes its screen.
  public init(
    wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor () -> Screen,
    _ presentation: PresentationType
  ) {
    wrappedValue = CoordinatorTransition(presentation: presentation) { coordinator, _ in
      make(coordinator)()
    }
  }
}

/// A screen that can be shown: an enum whose cases may carry the data that the screen needs.
///
/// ```swift
/// enum QuizRoute: RouteType {
///   case quizzes
///   case quiz(number: Int)
///
///   static let links: DeepLinks<QuizRoute> = [
///     DeepLink("quizzes") { [.quizzes] },
///     DeepLink("quizzes/{quiz}") { (quiz: Int) in [.quizzes, .quiz(number: quiz)] },
///   ]
/// }
/// ```
public protocol RouteType: Codable, Hashable, Sendable {
  /// The link patterns of the routes. Default: none.
  static var links: DeepLinks<Self> { get }
}

extension RouteType {
  /// The default: no link patterns.
  public static var links: DeepLinks<Self> { [] }

  /// Returns the routes of a link, the root first.
  /// - Throws: ``NavigationError`` if the link does not match any route.
  public static func path(to link: String) throws(NavigationError) -> [Self] {
    try links.path(to: link)
  }
}

/// A tab with its own stack of screens. The type is an enum with string raw values.
///
/// ```swift
/// enum QuizTab: String, TabType {
///   case quizzes, results
///   var root: QuizRoute { self == .quizzes ? .quizzes : .results }
/// }
/// ```
public protocol TabType: Codable, Hashable, Sendable, CaseIterable, CodingKeyRepresentable,
  RawRepresentable<String>
{
  /// The type of the screens in all tabs.
  associatedtype Route: RouteType

  /// The screen at the bottom of the tab's stack.
  var root: Route { get }
}
