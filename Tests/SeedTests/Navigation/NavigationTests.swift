import PipeRuntime
import PipeRuntimeTestKit
import Screens
import Testing

// The coordinator of the document as values: stacks, tabs, roots, sheets, routes.

private enum Place: RouteType {
  case home
  case street(name: String)
  case house(street: String, number: Int)

  static let links: DeepLinks<Place> = [
    DeepLink("home") { [.home] },
    DeepLink("home/{street}") { (street: String) in [.home, .street(name: street)] },
    DeepLink("home/{street}/{number}") { (street: String, number: Int) in
      [.home, .street(name: street), .house(street: street, number: number)]
    },
  ]
}

private enum Bare: RouteType { case only }

@Suite("A stack of screens")
struct NavigationStackTests {
  @Test("Screens are pushed and popped, and a sheet covers the screens")
  func stack() throws {
    var stack = RouteStack(root: Place.home)
    #expect(stack.shown == .home)
    try stack.push(.street(name: "Elm"))
    try stack.push(.house(street: "Elm", number: 3))
    #expect(stack.path == [.home, .street(name: "Elm"), .house(street: "Elm", number: 3)])
    try stack.present(.street(name: "Oak"))
    #expect(stack.shown == .street(name: "Oak"))
    #expect(stack.top == .house(street: "Elm", number: 3))
    try stack.dismiss()
    try stack.pop()
    #expect(stack.shown == .street(name: "Elm"))
    try stack.popToRoot()
    #expect(stack == RouteStack(root: .home))
  }

  @Test("A stack of screens throws the reason for a refused change and stays unchanged")
  func refused() throws {
    var stack = RouteStack(root: Place.home)
    #expect(throws: NavigationError.atRoot) { try stack.pop() }
    #expect(throws: NavigationError.atRoot) { try stack.popToRoot() }
    #expect(throws: NavigationError.noSheet) { try stack.dismiss() }
    #expect(throws: NavigationError.alreadyShown("home")) { try stack.push(.home) }
    try stack.present(.street(name: "Oak"))
    let before = stack
    #expect(throws: NavigationError.self) { try stack.push(.street(name: "Elm")) }
    #expect(throws: NavigationError.self) { try stack.present(.home) }
    #expect(stack == before)
    try stack.dismiss()
    for number in 1...63 { try stack.push(.house(street: "Elm", number: number)) }
    #expect(throws: NavigationError.tooDeep(limit: 64)) { try stack.push(.home) }
    #expect(throws: NavigationError.self) { try stack.show([.street(name: "Elm")]) }
    #expect(throws: NavigationError.self) { try stack.show([]) }
    let long = [Place.home] + (1...64).map { Place.house(street: "Elm", number: $0) }
    #expect(throws: NavigationError.tooDeep(limit: 64)) { try stack.show(long) }
    #expect(stack.path.count == 64)
  }

  @Test("A stack of screens is encoded to JSON and decoded again")
  func codable() throws {
    var stack = RouteStack(root: Place.home)
    try stack.push(.house(street: "Elm", number: 3))
    let json = try JSONValue(encoding: stack)
    #expect(
      json == [
        "root": ["home": [:]], "pushed": [["house": ["street": "Elm", "number": 3]]],
      ])
    #expect(try json.decode(RouteStack<Place>.self) == stack)
  }
}

@Suite("Tabs and roots")
struct NavigationTabsTests {
  @Test("Each tab keeps its stack, and a tab that is selected again returns to its root")
  func tabs() throws {
    var tabs = NavigationTabs(selected: CoordinatorTab.results)
    #expect(tabs.shown == .results)
    try tabs.select(.quizzes)
    try tabs.change { stack throws(NavigationError) in try stack.push(.detail(item: 7)) }
    try tabs.select(.profile)
    #expect(tabs.shown == .profile)
    try tabs.select(.quizzes)
    #expect(tabs.shown == .detail(item: 7))
    try tabs.select(.quizzes)
    #expect(tabs.shown == .quizzes)
    #expect(throws: NavigationError.atRoot) { try tabs.select(.quizzes) }
    #expect(tabs[.results].path == [.results])
    let json = try JSONValue(encoding: tabs)
    #expect(json == ["selected": "quizzes", "stacks": [:]])
    #expect(try json.decode(NavigationTabs<CoordinatorTab>.self) == tabs)
  }

  @Test("A path that begins with a tab's root selects this tab")
  func path() throws {
    var tabs = NavigationTabs(selected: CoordinatorTab.profile)
    try tabs.show([.results, .detail(item: 3)])
    #expect(tabs.selected == .results)
    #expect(tabs.shown == .detail(item: 3))
    let before = tabs
    let error = #expect(throws: NavigationError.self) { try tabs.show([.detail(item: 3)]) }
    #expect(error?.description.contains("root screens are 'quizzes', 'results', 'profile'") == true)
    #expect(tabs == before)
  }

  @Test("A login and a logout switch roots, and changes to the other root are refused")
  func roots() throws {
    var root = MainCoordinator.Root.unauthenticated(screens: .init(root: .start))
    #expect(throws: NavigationError.unauthenticated) {
      try root.whenAuthenticated { tabs throws(NavigationError) in try tabs.select(.results) }
    }
    #expect(throws: NavigationError.unauthenticated) { try root.logOut(to: .init(root: .start)) }
    try root.logIn(to: .init(selected: .quizzes))
    #expect(root.isAuthenticated)
    #expect(throws: NavigationError.authenticated) { try root.logIn(to: .init(selected: .results)) }
    #expect(throws: NavigationError.authenticated) {
      try root.whenUnauthenticated { stack throws(NavigationError) in try stack.pop() }
    }
    try root.logOut(to: .init(root: .start))
    #expect(!root.isAuthenticated)
  }
}

@Suite("Routes of deep links")
struct DeepLinkTests {
  @Test(
    "A link opens the routes of its pattern",
    arguments: [
      ("home", [Place.home]), ("/home/", [.home]), ("app://home", [.home]),
      ("home/Elm", [.home, .street(name: "Elm")]),
      ("home/Elm%2FOak%20%C3%A9", [.home, .street(name: "Elm/Oak é")]),
      ("home/100%", [.home, .street(name: "100%")]), ("home/%+1", [.home, .street(name: "%+1")]),
      ("home/Elm/7", [.home, .street(name: "Elm"), .house(street: "Elm", number: 7)]),
    ])
  private func paths(link: String, path: [Place]) throws {
    #expect(try Place.path(to: link) == path)
  }

  @Test(
    "Each link of the example opens its own screens",
    arguments: [
      ("quizzes", [.quizzes]), ("quizzes/7", [.quizzes, .detail(item: 7)]),
      ("quizzes/7/question/2", [.quizzes, .detail(item: 7), .question(item: 7, number: 2)]),
      ("results", [.results]), ("results/5", [.results, .detail(item: 5)]), ("profile", [.profile]),
    ] as [(String, [MainRoute])])
  func example(link: String, path: [MainRoute]) throws {
    #expect(try MainRoute.path(to: link) == path)
    #expect(throws: NavigationError.self) { try UnauthenticatedRoute.path(to: link) }
  }

  @Test(
    "An unknown link is reported with the known patterns and a suggestion",
    arguments: [
      (
        "hmoe/Elm/7",
        "no route matches link 'hmoe/Elm/7'; link patterns are 'home', 'home/{street}', "
          + "'home/{street}/{number}'. Did you mean 'home/Elm/7'?"
      ),
      (
        "somewhere/else/entirely/far",
        "no route matches link 'somewhere/else/entirely/far'; link patterns are "
          + "'home', 'home/{street}', 'home/{street}/{number}'"
      ),
      (
        "home/Elm/seven",
        "link 'home/Elm/seven': invalid value 'seven' for '{number}'; use a value of type Int"
      ),
      (
        "",
        "no route matches link ''; link patterns are "
          + "'home', 'home/{street}', 'home/{street}/{number}'"
      ),
      (String(repeating: "x", count: 2_000), "a link of 2000 bytes is too long; the limit is 1024"),
    ])
  func nowhere(link: String, message: String) {
    let error = #expect(throws: NavigationError.self) { try Place.path(to: link) }
    #expect(error?.description == message)
  }

  @Test("A malformed link pattern is reported")
  func malformed() {
    let links: DeepLinks<Place> = [
      DeepLink("{a}/{b}") { (a: String) in [.street(name: a)] },
      DeepLink("{a}/x/{a}") { (a: String, b: String) in [.street(name: a + b)] },
      DeepLink("/") { [.home] },
    ]
    #expect(
      links.problems == [
        "link pattern '{a}/{b}' has 2 placeholders, but its closure takes 1 values; the numbers "
          + "must be equal",
        "link pattern '{a}/x/{a}' has a duplicate placeholder; rename one of the placeholders",
        "link pattern '/' is empty; add a word",
      ])
    #expect(throws: NavigationError.self) { try links.path(to: "1/2") }
    #expect(Place.links.problems == [])
    #expect(MainRoute.links.problems == [])
    #expect(UnauthenticatedRoute.links.problems == [])
    let none = #expect(throws: NavigationError.self) { try Bare.path(to: "only") }
    #expect(none?.description.contains("there are no link patterns") == true)
  }
}

@Suite("The main coordinator")
struct MainCoordinatorTests {
  private let machine = MainCoordinator.stateMachine(NoParameters())

  private func state(after events: [MainCoordinator.Event]) throws -> MainCoordinator.State {
    try events.reduce(MainCoordinator.State()) { state, event in
      guard case .next(let next) = machine.reduce(state, event) else {
        throw NavigationError.notShown("\(event)")
      }
      return next
    }
  }

  @Test("The coordinator opens an item and one of its questions, and goes back")
  func open() throws {
    #expect(try state(after: [.logIn, .open(item: 7)]).main == .detail(item: 7))
    let question = try state(after: [.logIn, .open(item: 7), .answer(number: 2)])
    #expect(question.main == .question(item: 7, number: 2))
    #expect(try state(after: [.logIn, .open(item: 7), .pop]).main == .quizzes)
    let elsewhere = try state(after: [.logIn, .open(item: 7), .switchTo(tab: .profile)])
    #expect(elsewhere.main == .profile)
    #expect(try state(after: [.logIn, .openSheet(about: "x"), .dismiss]).main == .quizzes)
    #expect(try state(after: [.logIn, .open(item: 7), .logOut]).main == nil)
    #expect(try state(after: [.register, .pop, .forgotPassword, .dismiss]) == .init())
    let deep: [MainCoordinator.Event] = [.logIn, .open(item: 7), .answer(number: 2)]
    #expect(try state(after: deep + [.popToRoot]).main == .quizzes)
    #expect(try state(after: deep + [.pop]).main == .detail(item: 7))
    let followed = try state(after: [.logIn, .follow(link: "results/5")])
    guard case .authenticated(let tabs) = followed.root else {
      Issue.record("\(followed)")
      return
    }
    #expect(tabs.selected == .results && followed.main == .detail(item: 5))
    #expect(try state(after: [.logIn, .follow(link: "profile")]).main == .profile)
    let sheet = try state(after: [.logIn, .openSheet(about: "x")])
    guard case .authenticated(let covered) = sheet.root else {
      Issue.record("\(sheet)")
      return
    }
    #expect(covered.shown == .information(about: "x") && sheet.main == .quizzes)
  }

  @Test(
    "The coordinator refuses an event that does not fit the shown screen",
    arguments: [
      Misplaced([], .open(item: 1), "no user is logged in"),
      Misplaced([], .logOut, "no user is logged in"),
      Misplaced([], .switchTo(tab: .results), "no user is logged in"),
      Misplaced([], .pop, "the root is shown"), Misplaced([], .dismiss, "no sheet is shown"),
      Misplaced([.logIn], .logIn, "a user is logged in"),
      Misplaced([.logIn], .register, "a user is logged in"),
      Misplaced([.logIn], .pop, "the root is shown"),
      Misplaced([.logIn], .answer(number: 1), "'detail' is not shown"),
      Misplaced([.logIn, .openSheet(about: "x")], .open(item: 1), "dismiss it first"),
      Misplaced([.register], .register, "is shown already"),
    ])
  func refused(misplaced: Misplaced) throws {
    let answer = machine.reduce(try state(after: misplaced.before), misplaced.event)
    guard case .refused(.thrown(let text)) = answer else {
      Issue.record("\(misplaced): \(answer)")
      return
    }
    #expect(text.contains(misplaced.text), "\(misplaced.event): \(text)")
  }

  struct Misplaced: Sendable {
    var before: [MainCoordinator.Event]
    var event: MainCoordinator.Event
    /// A part of the refusal's text.
    var text: String

    init(_ before: [MainCoordinator.Event], _ event: MainCoordinator.Event, _ text: String) {
      (self.before, self.event, self.text) = (before, event, text)
    }
  }

  @Test("A link waits for a login, and the state holds the reason why a link is unknown")
  func links() throws {
    let waiting = try state(after: [.follow(link: "quizzes/7/question/2")])
    #expect(waiting.pending == "quizzes/7/question/2")
    #expect(!waiting.root.isAuthenticated)
    let arrived = try state(after: [.follow(link: "quizzes/7/question/2"), .logIn])
    #expect(arrived.main == .question(item: 7, number: 2))
    #expect(arrived.pending == nil)
    let lost = try state(after: [.logIn, .follow(link: "quizes")])
    #expect(lost.problem?.link == "quizes")
    #expect(lost.problem?.reason.hasSuffix("Did you mean 'quizzes'?") == true)
    #expect(lost.main == .quizzes)
    #expect(try state(after: [.logIn, .follow(link: "quizes"), .open(item: 1)]).problem == nil)
    #expect(try state(after: [.follow(link: "nowhere")]).problem != nil)
    #expect(try state(after: [.follow(link: "registration"), .pop]) == .init())
  }
}
