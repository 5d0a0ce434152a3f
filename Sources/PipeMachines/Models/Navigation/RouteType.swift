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
