import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

@Suite("Lists of movies as nodes", .timed)
struct MoviesNodeTests {
  private typealias List = MoviesList.State

  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  /// Returns a list of movies whose data file the test writes beside the topology.
  private static func list(
    _ machine: String = "MoviesList", parameters: JSONValue = [:]
  ) -> Topology {
    Topology(
      name: "list", program: "nodes",
      nodes: [.machine(machine, name: "list", parameters: parameters, restart: quick)])
  }

  private static let data = #"[{"id":1,"title":"M","year":1931}]"#
  private static let movies = [Movie(id: 1, title: "M", year: 1931)]

  private func failedLoaded(_ text: String) -> StatePattern {
    .matching("failed with '\(text)'") { (state: List) in
      guard case .failedLoaded(_, let failure) = state else { return false }
      return failure.description.contains(text)
    }
  }

  @Test("A list of movies handles a service that answers, fails or hangs")
  func services() async throws {
    try await withTopology("topologies/movies.yaml") { topology in
      for node in ["movies", "failing", "hanging"] {
        try await topology.send(node, MoviesList.Event.onAppear)
      }
      try await topology.expect("movies", "ten movies") { (state: List) in
        guard case .loaded(let movies) = state else { return false }
        return movies.count == 10 && movies[0].title == "A Trip to the Moon"
      }
      try await topology.expect(
        "failing",
        is: failedLoaded("no-such-movies.json' cannot be opened: No such file or directory"))
      try await topology.expect("hanging", is: failedLoaded("timed out after 2 s"))
      try await topology.send("movies", MoviesList.Event.load(3))
      try await topology.expect("movies", "three movies") { (state: List) in
        if case .loaded(let movies) = state { movies.count == 3 } else { false }
      }
      for node in ["movies", "failing", "hanging"] {
        let status = try await topology.expectStatus(of: node, "no effect") {
          $0.status?.effects == 0
        }
        #expect(status.isRunning && status.incarnation == 1)
      }
    }
  }

  @Test("A load is cancelled without a result when its view disappears")
  func cancelled() async throws {
    try await withTopology(Self.list(parameters: ["answerTime": 600_000])) { topology in
      try await topology.send("list", MoviesList.Event.onAppear)
      try await topology.expectStatus(of: "list", "one effect") { $0.status?.effects == 1 }
      try await topology.send("list", MoviesList.Event.onDisappear)
      try await topology.expect("list", List.start)
      try await topology.expectStatus(of: "list", "no effect") { $0.status?.effects == 0 }
      let late = try await topology.send("list", MoviesList.Event.didLoad(Self.movies))
      #expect(late == .refused(.noTransition, state: "start"))
    }
  }

  @Test("A malformed data file is reported and can be corrected while the node runs")
  func malformed() async throws {
    try await withTopology(Self.list()) { topology in
      try topology.directory.write("[{", to: "movies.json")
      try await topology.send("list", MoviesList.Event.onAppear)
      try await topology.expect(
        "list", is: failedLoaded("movies.json' is not valid JSON; correct the file"))
      try topology.directory.write(#"[{"id":1}]"#, to: "movies.json")
      try await topology.send("list", MoviesList.Event.onRetry)
      try await topology.expect("list", is: failedLoaded("'[0]' has no 'title'"))
      try topology.directory.write(Self.data, to: "movies.json")
      try await topology.send("list", MoviesList.Event.onRetry)
      try await topology.expect("list", List.loaded(Self.movies))
      #expect(try await topology.status("list").incarnation == 1)
    }
  }

  @Test(
    "A movie list that is killed during a load continues after its restart and loads once",
    arguments: ["MoviesList", "MoviesPages"])
  func killed(machine: String) async throws {
    let isList = machine == "MoviesList"
    let parameters: JSONValue = ["answerTime": 1_000]
    try await withTopology(Self.list(machine, parameters: parameters)) { topology in
      try topology.directory.write(Self.data, to: "movies.json")
      if isList {
        try await topology.send("list", MoviesList.Event.onAppear)
      } else {
        try await topology.send("list", MoviesPages.Event.fetchNext)
      }
      for start in UInt64(2)...3 {
        try await topology.kill("list")
        try await topology.expectStatus(of: "list", "start \(start)") {
          $0.isRunning && $0.incarnation == start
        }
      }
      if isList {
        try await topology.expect("list", List.loaded(Self.movies))
      } else {
        let batch = MovieBatch(page: 1, totalPages: 1, results: Self.movies)
        try await topology.expect("list", MoviesPages.State(batch: batch, movies: Self.movies))
      }
      try await topology.expectStatus(of: "list", "two steps, and no effect") {
        $0.status?.version == 2 && $0.status?.effects == 0
      }
    }
  }

  @Test("The time limit of a load continues to run when its node is killed")
  func timeLimit() async throws {
    let parameters: JSONValue = ["answerTime": 600_000, "timeLimit": 3_000]
    try await withTopology(Self.list(parameters: parameters)) { topology in
      try await topology.send("list", MoviesList.Event.onAppear)
      let loading = try await topology.expect("list", List.loading(1))
      let restart = try await topology.killUntil(.milliseconds(2_500), after: loading)
      let failed = try await topology.expect("list", is: failedLoaded("timed out after 3 s"))
      #expect(failed.time - loading.time >= 2_950_000_000)
      // About half a second is left of the three seconds.
      #expect(failed.time - restart < 2_000_000_000)
    }
  }

  @Test("Pages are fetched one after the other, until the last page")
  func pages() async throws {
    try await withTopology("topologies/movies-pages.yaml") { topology in
      for (page, count) in [(1, 10), (2, 20), (3, 23)] {
        try await topology.send("pages", MoviesPages.Event.fetchNext)
        try await topology.expect("pages", "page \(page)") { (state: MoviesPages.State) in
          state.batch?.page == page && state.movies.count == count && state.status == .idle
        }
      }
      let last = try await topology.send("pages", MoviesPages.Event.fetchNext)
      guard case .refused(.thrown("there is no further page"), _) = last else {
        Issue.record("\(last)")
        return
      }
      try await topology.send("failing", MoviesPages.Event.fetchNext)
      try await topology.expect("failing", "a failure") { (state: MoviesPages.State) in
        guard case .failed(let failure) = state.status else { return false }
        return failure.description.contains("no-such-movies.json' cannot be opened")
      }
      try await topology.send("failing", MoviesPages.Event.retry)
    }
  }
}

extension TopologyHarness {
  /// Kills the only node repeatedly, until the duration has passed since a state.
  /// - Returns: The time when the node was known to run again. Unit: nanoseconds since 1970.
  func killUntil(_ duration: Duration, after state: StateChange) async throws -> Int64 {
    var kills = 0
    while Duration.nanoseconds(WallClock.nanoseconds - state.time) < duration {
      let before = try await status(state.node).incarnation
      try await kill(state.node)
      kills += 1
      try await expectStatus(of: state.node, "another start") {
        $0.isRunning && $0.incarnation > before
      }
    }
    #expect(kills > 0, "it was not killed within \(duration.shortText)")
    return WallClock.nanoseconds
  }
}
