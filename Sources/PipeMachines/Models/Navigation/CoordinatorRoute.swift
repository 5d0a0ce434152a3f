/// How the screen of a route comes upon what is there.
public enum PresentationType: Hashable, Sendable {
  /// On top of the stack.
  case push
  /// As a sheet over it.
  case modal
}

/// How the screen of a route is made. Coordinators declare routes with ``Root`` and ``Route``.
@MainActor
public struct CoordinatorTransition<Coordinator: NavigationCoordinatable, Input, Screen> {
  /// `nil` for a root.
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
  /// The way to the screen.
  public let wrappedValue: CoordinatorTransition<Coordinator, Void, Screen>

  /// Takes a way to a screen.
  public init(wrappedValue: CoordinatorTransition<Coordinator, Void, Screen>) {
    self.wrappedValue = wrappedValue
  }
}

extension Root {
  /// Takes the method that makes the screen.
  public init(wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor () -> Screen) {
    wrappedValue = CoordinatorTransition(presentation: nil) { coordinator, _ in
      make(coordinator)()
    }
  }
}

/// A screen upon others, made by a method of the coordinator. The screen may be a coordinator itself.
///
/// ```swift
/// @Route(.modal) var forgotPassword = makeForgotPassword
/// @Route(.push) var quiz = makeQuiz(id:)
/// ```
@MainActor
@propertyWrapper
public struct Route<Coordinator: NavigationCoordinatable, Input, Screen> {
  /// The way to the screen.
  public let wrappedValue: CoordinatorTransition<Coordinator, Input, Screen>

  /// Takes a way to a screen.
  public init(wrappedValue: CoordinatorTransition<Coordinator, Input, Screen>) {
    self.wrappedValue = wrappedValue
  }
}

extension Route {
  /// Takes the method that makes the screen of what the route is given.
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
  /// Takes the method that makes the screen.
  public init(
    wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor () -> Screen,
    _ presentation: PresentationType
  ) {
    wrappedValue = CoordinatorTransition(presentation: presentation) { coordinator, _ in
      make(coordinator)()
    }
  }
}

/// A screen that can be shown: an enum, whose cases may carry what the screen needs.
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
  /// The texts that lead to the routes. Default: none.
  static var links: DeepLinks<Self> { get }
}

extension RouteType {
  /// None.
  public static var links: DeepLinks<Self> { [] }

  /// The routes that a link leads through, the root first.
  /// - Throws: ``NavigationError``, where it leads nowhere.
  public static func path(to link: String) throws(NavigationError) -> [Self] {
    try links.path(to: link)
  }
}

/// A tab, with a stack of screens of its own: an enum of texts.
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
  /// The screens of all tabs.
  associatedtype Route: RouteType

  /// The screen at the bottom of the tab's stack.
  var root: Route { get }
}
