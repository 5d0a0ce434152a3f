import PipeRuntime

/// Decides which screens are shown. The screens send requests to the port `requests`. For each
/// screen, the coordinator has a port through which it sends the contents to show.
package enum MainCoordinator: Machine {
  package typealias Root = NavigationRoot<
    RouteStack<UnauthenticatedRoute>, NavigationTabs<CoordinatorTab>
  >

  package struct State: MachineState, Hashable {
    package var root: Root
    /// The name of the registered and logged-in user.
    package var user: String?
    /// A link that the coordinator opens after the login.
    package var pending: String?
    /// The reason why the last step could not open a link; `nil` if the last step opened its link,
    /// or had no link to open.
    package var problem: LinkFailure?

    package init(root: Root = .unauthenticated(screens: .init(root: .start))) { self.root = root }
  }

  package enum Event: MachineEvent, Hashable {
    case logIn
    case logOut
    case open(item: Int)
    case answer(number: Int)
    case openSheet(about: String)
    case register
    /// The user has completed the registration.
    case registered(name: String)
    case forgotPassword
    case dismiss
    case pop
    case popToRoot
    case switchTo(tab: CoordinatorTab)
    case follow(link: String)
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State(), reducer: { try $0.take($1) })
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("requests"))
      .connectAsSender(to: ports.pipe("login")) { state in
        state.root.isAuthenticated ? LoginScreen.Event.leave : .show
      }
      .connectAsSender(to: ports.pipe("registration")) { state in
        state.unauthenticatedRoute == .registration ? RegistrationCoordinator.Event.show : .hide
      }
      .connectAsSender(to: ports.pipe("results")) { state in
        state.main == .results ? ResultsScreen.Event.show : .hide
      }
      .connectAsSender(to: ports.pipe("profile")) { state in
        state.main == .profile
          ? ProfileScreen.Event.show(name: state.user ?? "guest") : .hide
      }
      .connectAsSender(to: ports.pipe("list")) { state in
        state.main == .quizzes ? ListScreen.Event.show : .hide
      }
      .connectAsSender(to: ports.pipe("detail")) { state in
        switch state.main {
        case .detail(let item): DetailScreen.Event.show(item: item)
        case .question(let item, let number): .showQuestion(item: item, number: number)
        default: .hide
        }
      }
  }
}

extension MainCoordinator.State {
  /// The screen that users see after the login. A sheet may be above it.
  package var main: MainRoute? {
    if case .authenticated(let tabs) = root { tabs.stack.top } else { nil }
  }

  /// The screen that users see before the login. A sheet may be above it.
  package var unauthenticatedRoute: UnauthenticatedRoute? {
    if case .unauthenticated(let screens) = root { screens.top } else { nil }
  }

  mutating func take(_ event: MainCoordinator.Event) throws(NavigationError) {
    problem = nil
    switch event {
    case .logIn: try logIn(as: nil)
    case .logOut:
      try root.logOut(to: RouteStack(root: .start))
      user = nil
    case .open(let item): try push(.detail(item: item))
    case .answer(let number):
      guard case .detail(let item) = main else { throw .notShown("detail") }
      try push(.question(item: item, number: number))
    case .openSheet(let subject):
      try changeStack { stack throws(NavigationError) in
        try stack.present(.information(about: subject))
      }
    case .register:
      try root.whenUnauthenticated { stack throws(NavigationError) in
        try stack.push(.registration)
      }
    case .registered(let name):
      guard unauthenticatedRoute == .registration else { throw .notShown("registration") }
      try logIn(as: name)
    case .forgotPassword:
      try root.whenUnauthenticated { stack throws(NavigationError) in
        try stack.present(.forgotPassword)
      }
    case .dismiss:
      if root.isAuthenticated {
        try changeStack { stack throws(NavigationError) in try stack.dismiss() }
      } else {
        try root.whenUnauthenticated { stack throws(NavigationError) in try stack.dismiss() }
      }
    case .pop:
      if root.isAuthenticated {
        try changeStack { stack throws(NavigationError) in try stack.pop() }
      } else {
        try root.whenUnauthenticated { stack throws(NavigationError) in try stack.pop() }
      }
    case .popToRoot:
      try changeStack { stack throws(NavigationError) in try stack.popToRoot() }
    case .switchTo(let tab):
      try root.whenAuthenticated { tabs throws(NavigationError) in try tabs.select(tab) }
    case .follow(let link): follow(link)
    }
  }

  private mutating func logIn(as user: String?) throws(NavigationError) {
    try root.logIn(to: NavigationTabs(selected: .quizzes))
    self.user = user
    if let pending {
      self.pending = nil
      follow(pending)
    }
  }

  /// Opens a link. Links come from outside the program, so an invalid link does not cause a
  /// refusal: the resulting state contains the error.
  private mutating func follow(_ link: String) {
    do throws(NavigationError) {
      if root.isAuthenticated {
        let path = try MainRoute.path(to: link)
        try root.whenAuthenticated { tabs throws(NavigationError) in try tabs.show(path) }
      } else if let path = try? UnauthenticatedRoute.path(to: link) {
        try root.whenUnauthenticated { stack throws(NavigationError) in try stack.show(path) }
      } else {
        _ = try MainRoute.path(to: link)
        pending = link
      }
    } catch {
      problem = LinkFailure(link, error)
    }
  }

  private mutating func push(_ route: MainRoute) throws(NavigationError) {
    try changeStack { stack throws(NavigationError) in try stack.push(route) }
  }

  private mutating func changeStack(
    _ change: (inout RouteStack<MainRoute>) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    try root.whenAuthenticated { tabs throws(NavigationError) in try tabs.change(change) }
  }
}

/// The screens before the login.
package enum UnauthenticatedRoute: RouteType {
  case start
  case registration
  case forgotPassword

  package static let links: DeepLinks<UnauthenticatedRoute> = [
    DeepLink("registration") { [.start, .registration] }
  ]
}

/// The screens of logged-in users.
package enum MainRoute: RouteType {
  case quizzes
  case detail(item: Int)
  case question(item: Int, number: Int)
  case results
  case profile
  /// A sheet with information about a topic.
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

/// The tabs of logged-in users.
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
