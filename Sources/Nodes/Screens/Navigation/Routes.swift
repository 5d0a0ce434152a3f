import PipeRuntime

/// The screens of those who have not logged in.
package enum UnauthenticatedRoute: RouteType {
  case start
  case registration
  case forgotPassword

  package static let links: DeepLinks<UnauthenticatedRoute> = [
    DeepLink("registration") { [.start, .registration] }
  ]
}

/// The screens of those who have.
package enum MainRoute: RouteType {
  case quizzes
  case detail(item: Int)
  case question(item: Int, number: Int)
  case results
  case profile
  /// A sheet.
  case information(about: String)

  package static let links: DeepLinks<MainRoute> = [
    DeepLink("quizzes") { [.quizzes] },
    DeepLink("quizzes/{quiz}") { (quiz: Int) in [.quizzes, .detail(item: quiz)] },
    DeepLink("quizzes/{quiz}/question/{number}") { (quiz: Int, number: Int) in
      [.quizzes, .detail(item: quiz), .question(item: quiz, number: number)]
    },
    DeepLink("results") { [.results] },
    DeepLink("results/{quiz}") { (quiz: Int) in [.results, .detail(item: quiz)] },
    DeepLink("profile") { [.profile] },
  ]
}

/// The tabs of those who have logged in.
package enum CoordinatorTab: String, TabType {
  case quizzes
  case results
  case profile

  package var root: MainRoute {
    switch self {
    case .quizzes: .quizzes
    case .results: .results
    case .profile: .profile
    }
  }
}
