import Observation
import PipeRuntime
import Screens
import Testing

// The coordinators of the document: objects whose routes create their screens.

@MainActor
private final class LoginScreenViewModel {
  let mainRouter: UnauthenticatedCoordinator.Router? = RouterStore.shared.retrieve()

  func forgotPasswordPressed() throws { try mainRouter?.route(to: \.forgotPassword) }
}

private struct ForgotPasswordScreen {}
private struct TermsScreen {}

private struct NameScreen: Equatable {
  var suggestion: String
}

private final class SignUpCoordinator: NavigationCoordinatable {
  let stack = CoordinatorStack(initial: \SignUpCoordinator.terms)

  @Root var terms = makeTerms
  @Route(.push) var name = makeName

  func makeTerms() -> TermsScreen { TermsScreen() }
  func makeName(suggestion: String) -> NameScreen { NameScreen(suggestion: suggestion) }
}

private final class UnauthenticatedCoordinator: NavigationCoordinatable {
  let stack = CoordinatorStack(initial: \UnauthenticatedCoordinator.start)
  var made: [String] = []

  @Root var start = makeStart
  @Root var closed = makeClosed
  @Route(.modal) var forgotPassword = makeForgotPassword
  @Route(.push) var registration = makeRegistration

  func makeStart() -> LoginScreenViewModel {
    made.append("start")
    return LoginScreenViewModel()
  }
  func makeClosed() -> String { "closed" }
  func makeForgotPassword() -> ForgotPasswordScreen {
    made.append("forgotPassword")
    return ForgotPasswordScreen()
  }
  func makeRegistration() -> SignUpCoordinator {
    made.append("registration")
    return SignUpCoordinator()
  }
}

@MainActor
// Serialized, because the process has only one store of routers.
@Suite("Coordinators that create their screens", .serialized)
struct CoordinatorTests {
  private let coordinator = UnauthenticatedCoordinator()

  @Test(
    "Opening a route creates the route's screen, and leaving the route releases the screen")
  func makes() throws {
    #expect(coordinator.made == [])
    #expect(coordinator.shown is LoginScreenViewModel)
    #expect(coordinator.shown is LoginScreenViewModel)
    #expect(coordinator.made == ["start"])
    weak let registration = try coordinator.router.route(to: \.registration)
    #expect(registration != nil && coordinator.screens.count == 2)
    try coordinator.router.popLast()
    #expect(registration == nil)
    try coordinator.router.route(to: \.registration)
    #expect(coordinator.made == ["start", "registration", "registration"])
  }

  @Test("A route's screen is shown as a pushed screen, a sheet or a root, as the route declares")
  func presentations() throws {
    let router = coordinator.router
    try router.route(to: \.forgotPassword)
    #expect(coordinator.shown is ForgotPasswordScreen && coordinator.sheet is ForgotPasswordScreen)
    #expect(coordinator.screens.count == 1)
    try router.dismiss()
    #expect(coordinator.shown is LoginScreenViewModel)
    try router.route(to: \.registration)
    try router.root(\.closed)
    #expect(coordinator.shown as? String == "closed" && coordinator.screens.count == 1)
  }

  @Test("A nested coordinator has its own screens and removes them all when it is dismissed")
  func nested() throws {
    let signUp = try coordinator.router.route(to: \.registration)
    #expect(coordinator.shown is TermsScreen)
    try signUp.router.route(to: \.name, "Ada")
    #expect(coordinator.shown as? NameScreen == NameScreen(suggestion: "Ada"))
    #expect(coordinator.screens.count == 2 && signUp.screens.count == 2)
    try signUp.router.popLast()
    #expect(coordinator.shown is TermsScreen)
    try signUp.router.route(to: \.name, "Bob")
    try signUp.router.dismissCoordinator()
    #expect(coordinator.shown is LoginScreenViewModel)
  }

  @Test("A refused navigation throws its reason, creates no screen and changes nothing")
  func refused() throws {
    let router = coordinator.router
    #expect(throws: NavigationError.atRoot) { try router.popLast() }
    #expect(throws: NavigationError.atRoot) { try router.popToRoot() }
    #expect(throws: NavigationError.noSheet) { try router.dismiss() }
    #expect(throws: NavigationError.atRoot) { try router.dismissCoordinator() }
    let signUp = try router.route(to: \.registration)
    try router.route(to: \.forgotPassword)
    let covered = NavigationError.sheetIsShown("ForgotPasswordScreen")
    #expect(throws: covered) { try router.route(to: \.registration) }
    #expect(throws: covered) { try signUp.router.dismissCoordinator() }
    #expect(coordinator.made == ["registration", "forgotPassword"].withStart)
    #expect(coordinator.screens.count == 2)
    var gone: UnauthenticatedCoordinator? = UnauthenticatedCoordinator()
    let last = gone?.router
    gone = nil
    #expect(throws: NavigationError.notShown("UnauthenticatedCoordinator")) { try last?.popLast() }
  }

  @Test("A screen finds the router of its coordinator by type")
  func retrieved() throws {
    let screen = try #require(coordinator.shown as? LoginScreenViewModel)
    try screen.forgotPasswordPressed()
    #expect(coordinator.shown is ForgotPasswordScreen)
    let none: SignUpCoordinator.Router? = RouterStore.shared.retrieve()
    #expect(none == nil)
  }

  @Test("An observer of the shown screen is notified of a change, even in a nested coordinator")
  func observed() async throws {
    let signUp = try coordinator.router.route(to: \.registration)
    let (changes, change) = AsyncStream.makeStream(of: Void.self)
    withObservationTracking {
      _ = coordinator.shown
    } onChange: {
      change.yield()
    }
    try signUp.router.route(to: \.name, "Ada")
    var iterator = changes.makeAsyncIterator()
    #expect(await iterator.next() != nil)
  }
}

extension [String] {
  /// These names, preceded by the name of the root, which is created first.
  fileprivate var withStart: [String] { ["start"] + self }
}

@Suite("Nested coordinators as nodes")
struct RegistrationCoordinatorTests {
  private func state(
    after events: [RegistrationCoordinator.Event]
  ) throws -> RegistrationCoordinator.State {
    try events.reduce(.hidden) { state, event in
      guard case .next(let next) = RegistrationCoordinator.reduce(state, event) else {
        throw NavigationError.notShown("\(event)")
      }
      return next
    }
  }

  @Test("The registration goes from the terms to the name and back")
  func screens() throws {
    let terms = RegistrationCoordinator.State.shown(screens: NavigationStack(root: .terms))
    #expect(try state(after: [.show]) == terms)
    #expect(try state(after: [.show, .show, .accept, .back]) == terms)
    #expect(try state(after: [.show, .accept, .show]) != terms)
    #expect(try state(after: [.show, .accept, .enter(name: "Ada"), .hide]) == .hidden)
    #expect(try state(after: [.show, .accept, .hide, .show]) == terms)
  }

  @Test(
    "The registration refuses an event that does not belong to its screen",
    arguments: [
      ([], .accept), ([], .enter(name: "Ada")), ([], .cancel), ([.show], .back),
      ([.show], .enter(name: "Ada")), ([.show, .accept], .accept),
      ([.show, .accept], .enter(name: "")),
    ] as [([RegistrationCoordinator.Event], RegistrationCoordinator.Event)])
  func refused(before: [RegistrationCoordinator.Event], event: RegistrationCoordinator.Event) throws
  {
    guard case .refused = RegistrationCoordinator.reduce(try state(after: before), event) else {
      Issue.record("\(event) should be refused")
      return
    }
  }

  @Test("A registered user is logged in by name, but only from the registration")
  func registered() throws {
    var state = MainCoordinator.State()
    #expect(throws: NavigationError.notShown("registration")) {
      try state.apply(.registered(name: "Ada"))
    }
    try state.apply(.register)
    try state.apply(.registered(name: "Ada"))
    #expect(state.user == "Ada" && state.main == .quizzes)
    try state.apply(.logOut)
    #expect(state.user == nil && state.unauthenticatedRoute == .start)
  }
}

extension MainCoordinator.State {
  /// Applies an event to the state with the coordinator's machine.
  fileprivate mutating func apply(_ event: MainCoordinator.Event) throws {
    switch MainCoordinator.stateMachine(NoParameters()).reduce(self, event) {
    case .next(let next): self = next
    case .refused(.thrown("\(NavigationError.notShown("registration"))")):
      throw NavigationError.notShown("registration")
    case let other: Issue.record("\(event): \(other)")
    }
  }
}
