import Nodes
import PipeRuntime
import Screens
import Testing

/// A view on a terminal of its own, without a node.
private struct Shown<View: TerminalView> {
  var screen: View.Screen
  let size = TerminalSize(columns: 50, rows: 12)

  init(_: View.Type, _ state: View.State) { screen = View.screen(of: state) }

  var lines: [String] { View.body(screen, size: size).map(\.description) }

  /// Presses the keys and returns their events.
  mutating func press(_ keys: Key...) -> [View.Event] {
    keys.compactMap { View.press($0, in: &screen, size: size) }
  }

  mutating func type(_ text: String) -> [View.Event] {
    text.compactMap { View.press(.character($0), in: &screen, size: size) }
  }

  mutating func update(to state: View.State) { View.update(&screen, to: state, size: size) }
}

@Suite("The screens of the examples")
struct ScreenViewTests {
  private let movies = (1...40).map { Movie(id: $0, title: "Movie \($0)", year: 1900 + $0) }

  @Test("Each example screen fits into its minimum size")
  func fits() throws {
    func check<View: TerminalView>(_ view: View.Type, _ states: View.State...) {
      for state in states {
        let lines = View.body(View.screen(of: state), size: View.minimumSize)
        #expect(lines.count <= View.minimumSize.rows, "\(View.name) \(state)")
        #expect(lines.allSatisfy { $0.width <= View.minimumSize.columns }, "\(View.name) \(state)")
      }
    }
    let quiz = QuizTitle(Quiz(id: 1, title: "Swift", questions: []))
    check(
      QuizesView.self, .start, .loading, .loaded(quizes: []),
      .loaded(quizes: Array(repeating: quiz, count: 40)), .error(message: "no"))
    check(
      ResultsView.self, .waiting, .scoring(AnswerSheet(quiz: 1, title: "Swift")),
      .scored(QuizScore(title: "Swift", right: 1, questions: 2)), .failed(message: "no"))
    check(
      MoviesView.self, .start, .loading(1), .loaded([]), .loaded(movies),
      .failedLoaded(1, LoadFailure("no")))
    check(
      MoviesPagesView.self, .init(), .init(movies: movies),
      .init(movies: movies, status: .failed(LoadFailure("no"))))
    let address = Address(city: "Quebec", street: "rue", house: "7")
    check(
      AddressView.self, .empty, .city(city: "Quebec"), .street(city: "Quebec", street: "rue"),
      .complete(address), .saving(address), .saved(address), .rejected(address, reason: "no"))
    check(RegistrationView.self, .hidden, .shown(screens: .init(root: .terms)))
    var authenticated = MainCoordinator.State()
    try authenticated.root.logIn(to: .init(selected: .quizzes))
    check(NavigationView.self, .init(), authenticated)
  }

  @Test(
    "A list view sends its appear event in the start state, and its disappear event in later states"
  )
  func lifecycle() {
    func movies(_ state: MoviesList.State) -> [MoviesList.Event?] {
      let screen = MoviesView.screen(of: state)
      return [MoviesView.onAppear(screen), MoviesView.onDisappear(screen)]
    }
    #expect(movies(.start).map { $0 != nil } == [true, false])
    #expect(movies(.loading(1)).map { $0 != nil } == [false, true])
    #expect(movies(.loaded([])).map { $0 != nil } == [false, true])
    #expect(QuizesView.onAppear(QuizesView.screen(of: .start)) == .onAppear)
    #expect(QuizesView.onAppear(QuizesView.screen(of: .loading)) == nil)
    #expect(QuizView.onDisappear(.start(quiz: nil)) == nil)
    #expect(QuizView.onDisappear(.loading(quiz: 1)) == .onDisappear)
  }

  @Test(
    "The next page is fetched when the last row is visible, unless a fetch runs or has failed")
  func pages() {
    let batch = MovieBatch(page: 1, totalPages: 4, results: [])
    var pages = Shown(MoviesPagesView.self, .init(batch: batch, movies: movies))
    func sight() -> MoviesPages.Event? { MoviesPagesView.onShow(pages.screen, size: pages.size) }
    #expect(sight() == nil)
    #expect(pages.press(.end) == [])
    #expect(sight() == .fetchNext)
    pages.update(to: .init(batch: batch, movies: movies, status: .loading))
    #expect(sight() == nil)
    pages.update(to: .init(batch: batch, movies: movies, status: .failed(LoadFailure("no"))))
    #expect(sight() == nil)
    #expect(pages.press(.character("r")) == [.retry])
    let last = MovieBatch(page: 4, totalPages: 4, results: [])
    pages.update(to: .init(batch: last, movies: movies))
    #expect(sight() == nil)
    #expect(pages.lines.contains("▶ Movie 40  1940") && pages.lines.last == "No more movies")
    // No page has been loaded yet.
    #expect(
      MoviesPagesView.onShow(MoviesPagesView.screen(of: .init()), size: pages.size) == .fetchNext)
  }

  @Test("A form sends a field when the user leaves the field, but only if the text has changed")
  func address() {
    var form = Shown(AddressView.self, .empty)
    #expect(form.type(" Quebec q ") == [])
    #expect(form.lines.contains { $0.hasPrefix("City     Quebec q ") })
    #expect(form.press(.enter) == [.cityChanged(to: " Quebec q ")])
    // Text that is typed before the form's new state arrives is kept.
    #expect(form.type("rue") == [])
    form.update(to: .city(city: "Quebec q"))
    #expect(form.lines.contains { $0.hasPrefix("City    Quebec q") })
    #expect(form.lines.contains { $0.hasPrefix("Street  rue") })
    #expect(form.press(.backTab) == [.streetChanged(to: "rue")])
    form.update(to: .street(city: "Quebec q", street: "rue"))
    // The texts of these fields have not changed.
    #expect(form.press(.tab, .tab) == [])
    #expect(form.type("7") == [])
    #expect(form.press(.tab) == [.houseChanged(to: "7")])
    let address = Address(city: "Quebec q", street: "rue", house: "7")
    form.update(to: .complete(address))
    #expect(!AddressView.takesText(form.screen))
    #expect(form.press(.enter) == [.save])
    form.update(to: .saving(address))
    #expect(form.press(.enter, .character("x")) == [])
    form.update(to: .saved(address))
    #expect(form.press(.enter) == [.clear])
    form.update(to: .empty)
    #expect(form.lines.filter { $0.contains("rue") } == [])
    #expect(AddressView.takesText(form.screen))
  }

  @Test("Keys send the shown screen's events to the coordinator")
  func navigation() throws {
    var view = Shown(NavigationView.self, .init())
    #expect(
      view.press(.character("r"), .character("f"), .enter) == [.register, .forgotPassword, .logIn])
    var state = MainCoordinator.State()
    try state.root.logIn(to: .init(selected: .quizzes))
    view.update(to: state)
    #expect(view.press(.down, .enter) == [.open(item: 2)])
    #expect(view.press(.left) == [])
    #expect(view.press(.right) == [.switchTo(tab: .results)])
    #expect(view.lines[0] == " quizzes [results] profile ")
    // The coordinator refused the change. The view shows the coordinator's tab again.
    view.update(to: state)
    #expect(view.lines[0] == "[quizzes] results  profile ")
    #expect(view.press(.character("i")) == [.openSheet(about: "Quizzes")])
    try state.root.whenAuthenticated { tabs throws(NavigationError) in
      try tabs.change { stack throws(NavigationError) in
        try stack.present(.information(about: "x"))
      }
    }
    view.update(to: state)
    #expect(view.press(.right, .enter, .character("b")) == [])
    #expect(view.press(.character("d")) == [.dismiss])
    state = .init()
    state.user = "Ada"
    try state.root.logIn(to: .init(selected: .profile))
    view.update(to: state)
    #expect(view.lines.contains("Ada"))
    #expect(view.press(.character("o")) == [.logOut])
  }

  @Test("The registration view keeps a typed name until the registration ends")
  func registration() throws {
    var stack = NavigationStack(root: RegistrationRoute.terms)
    var view = Shown(RegistrationView.self, .shown(screens: stack))
    #expect(view.press(.enter, .escape) == [.accept, .cancel])
    try stack.push(.name)
    view.update(to: .shown(screens: stack))
    #expect(view.type("Ada q") == [])
    #expect(view.press(.enter, .escape) == [.enter(name: "Ada q"), .back])
    view.update(to: .hidden)
    view.update(to: .shown(screens: stack))
    #expect(view.press(.enter) == [.enter(name: "")])
  }
}
