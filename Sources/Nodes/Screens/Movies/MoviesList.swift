import PipeRuntime

/// A list of movies. While a view shows the list, one page of movies is loaded.
package enum MoviesList: LoadableMachine {
  package typealias Parameters = MovieParameters

  /// Loads movies from the injected service.
  private struct Loader: Sendable {
    @Injected var service: any MovieService

    func load(page: Int) async throws -> [Movie] {
      try await service.fetchMovies(page: page).results
    }
  }

  package static func first(_ parameters: MovieParameters) -> Int { 1 }

  package static func load(_ page: Int, _ parameters: MovieParameters) async throws -> [Movie] {
    try await Loader().load(page: page)
  }

  package static func timeLimit(_ parameters: MovieParameters) -> Duration? {
    .milliseconds(parameters.timeLimit)
  }

  package static func services(_ parameters: MovieParameters) -> Services { parameters.services }
}

/// A view of the list of movies. When the view opens, the list is loaded; when the view closes, the
/// list is released.
package enum MoviesView: TerminalView {
  package struct Screen {
    package var state: MoviesList.State
    var list = TerminalList()

    var count: Int { if case .loaded(let movies) = state { movies.count } else { 0 } }
  }

  package static let minimumSize = TerminalSize(columns: 40, rows: 6)

  package static func screen(of state: MoviesList.State) -> Screen { Screen(state: state) }

  package static func update(
    _ screen: inout Screen, to state: MoviesList.State, size: TerminalSize
  ) { screen.state = state }

  package static func onAppear(_ screen: Screen) -> MoviesList.Event? {
    screen.state == .start ? .onAppear : nil
  }

  package static func onDisappear(_ screen: Screen) -> MoviesList.Event? {
    screen.state == .start ? nil : .onDisappear
  }

  package static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    let title = StyledLine("Movies", .bold)
    switch screen.state {
    case .start: return [title]
    case .loading: return [title, StyledLine("Loading…", .dim)]
    case .loaded(let movies):
      return [title]
        + screen.list.lines(of: movies.count, height: size.rows - 2) { Self.line(movies[$0]) }
        + [StyledLine("↑ and ↓ scroll, r loads again", .dim)]
    case .failedLoaded(_, let failure):
      return [
        title, StyledLine("\(failure)", .color(.red)), StyledLine("r tries again", .dim),
      ]
    }
  }

  static func line(_ movie: Movie) -> StyledLine {
    StyledLine(movie.title) + StyledLine("  \(movie.year)", .dim)
  }

  package static func press(
    _ key: Key, in screen: inout Screen, size: TerminalSize
  ) -> MoviesList.Event? {
    if screen.list.press(key, of: screen.count, height: size.rows - 2) { return nil }
    switch (key, screen.state) {
    case (.character("r"), .loaded), (.character("r"), .failedLoaded): return .onRetry
    default: return nil
    }
  }
}
