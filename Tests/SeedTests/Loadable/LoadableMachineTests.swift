import PipeRuntime
import PipeRuntimeTestKit
import Screens
import Testing

@Suite("The states of a loading machine")
struct LoadableMachineTests {
  private typealias State = MoviesList.State
  private typealias Event = MoviesList.Event

  private static let movies = StubMovies.movies
  private static let failure = LoadFailure("no line")
  private static let states: [State] = [
    .start, .loading(1), .loading(2), .loaded(movies), .failedLoaded(2, failure),
  ]
  private static let events: [Event] = [
    .onAppear, .onActive, .onDisappear, .onBackground, .onReset, .onRetry, .load(3),
    .didLoad(movies), .didFail(failure),
  ]

  /// The next state for each state and each event, in the order of ``states`` and ``events``; `nil`
  /// if the event is refused.
  private static let table: [[State?]] = [
    [.loading(1), .loading(1), nil, nil, nil, nil, .loading(3), nil, nil],
    [
      nil, nil, .start, .start, .start, nil, .loading(3), .loaded(movies),
      .failedLoaded(1, failure),
    ],
    [
      nil, nil, .start, .start, .start, nil, .loading(3), .loaded(movies),
      .failedLoaded(2, failure),
    ],
    [nil, nil, .start, .start, .start, .loading(1), .loading(3), nil, nil],
    [nil, nil, .start, .start, .start, .loading(2), .loading(3), nil, nil],
  ]

  @Test("Every event in every state of a loading machine has the result in the table")
  func transitions() {
    let machine = MoviesList.stateMachine(MovieParameters())
    for (state, row) in zip(Self.states, Self.table) {
      for (event, next) in zip(Self.events, row) {
        let expected = next.map { Reduction.next($0) } ?? .refused(.noTransition)
        #expect(machine.reduce(state, event) == expected, "\(state), \(event)")
      }
    }
  }

  @Test("A loading machine describes its cases with the types that it loads")
  func described() throws {
    let description = try MoviesList.describe(MovieParameters())
    #expect(description.error == nil && description.stateFields == nil)
    #expect(
      description.states == [
        CaseDescription(name: "loading", fields: [.init(name: "_0", type: "Int")]),
        CaseDescription(name: "loaded", fields: [.init(name: "_0", type: "Array<Movie>")]),
        CaseDescription(
          name: "failedLoaded",
          fields: [.init(name: "_0", type: "Int"), .init(name: "_1", type: "LoadFailure")]),
        CaseDescription(name: "start"),
      ])
    #expect(
      description.alphabet == [
        "load", "didLoad", "didFail", "onAppear", "onDisappear", "onActive", "onBackground",
        "onReset", "onRetry",
      ])
  }

  @Test("States of a loading machine are unchanged by JSON coding and have a readable text")
  func coded() throws {
    for state in Self.states {
      let json = try JSONValue(encoding: state)
      #expect(try json.decode(State.self) == state)
    }
    let failed = try JSONValue(encoding: State.failedLoaded(2, Self.failure))
    #expect(failed.caseText == #"failedLoaded(2, "no line")"#)
    #expect(try JSONValue(encoding: State.loading(7)).caseText == "loading(7)")
  }

  @Test("A loading machine cannot start in an unstable state")
  func stable() throws {
    #expect(try State.start.stable() == .start)
    let error = #expect(throws: UnstableStateError.self) { try State.loading(1).stable() }
    #expect(error?.description.contains("loading(1)") == true)
  }

  @Test(
    "A service is resolved by the nearest registration, and only within the registration's scope")
  func services() async {
    var (one, other) = (Services(), Services())
    one.register(Int.self) { 1 }
    other.register(Int.self) { 2 }
    other.register(String.self) { "two" }
    #expect(one.resolve(String.self) == nil)
    #expect(one.merging(other).resolve(Int.self) == 1)
    #expect(one.merging(other).resolve(String.self) == "two")
    await Services.with(other) {
      @Injected var number: Int
      #expect(number == 2)
    }
    #expect(Services.current.resolve(Int.self) == nil)
  }
}

@Suite("The movie service that reads a file")
struct FileMovieServiceTests {
  private func list(_ text: String?, pageSize: Int = 2, page: Int = 1) async throws -> [Movie] {
    let directory = try TestDirectory()
    defer { directory.remove() }
    var parameters = MovieParameters()
    parameters.path = "\(directory.path)/movies.json"
    parameters.pageSize = pageSize
    if let text { try directory.write(text, to: "movies.json") }
    return try await Services.with(MoviesList.services(parameters)) {
      try await MoviesList.load(page, parameters)
    }
  }

  private static let three = """
    [{"id":1,"title":"M","year":1931},{"id":2,"title":"Ran","year":1985},
    {"id":3,"title":"Vertigo","year":1958}]
    """

  @Test("A movie file is read in pages, and the last page can be shorter")
  func pages() async throws {
    #expect(try await list(Self.three).map(\.id) == [1, 2])
    #expect(try await list(Self.three, page: 2).map(\.id) == [3])
    #expect(try await list("[]") == [])
  }

  @Test(
    "An error of a movie file or its parameters says what is wrong",
    arguments: [
      (nil, 2, 1, "movies.json' cannot be opened: No such file or directory; create the file"),
      ("[", 2, 1, "movies.json' is not valid JSON; correct the file"),
      ("{}", 2, 1, "the file is not of type Array<Any>; correct the file"),
      (#"[{"id":1,"year":2}]"#, 2, 1, "'[0]' has no 'title'; correct the file"),
      (#"[{"id":1,"title":3,"year":2}]"#, 2, 1, "'[0].title' is not of type String"),
      (three, 2, 3, "no such page 3; the pages are 1 to 2"),
      (three, 2, 0, "no such page 0"), (three, 0, 1, "set the parameter 'pageSize'"),
      (three, -1, 1, "set the parameter 'pageSize'"),
    ] as [(String?, Int, Int, String)])
  func problems(text: String?, pageSize: Int, page: Int, message: String) async {
    let error = await #expect(throws: (any Error).self) {
      try await list(text, pageSize: pageSize, page: page)
    }
    #expect(error.map { "\($0)".contains(message) } == true, "\(error.map { "\($0)" } ?? "none")")
  }
}
