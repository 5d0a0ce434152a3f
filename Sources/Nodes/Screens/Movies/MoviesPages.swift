import PipeRuntime

/// A list of movies. When the user scrolls to the end of the list, the next page is loaded.
package enum MoviesPages: Machine {
  package struct State: MachineState, Hashable {
    /// The page that was loaded last; `nil` before the first page is loaded.
    package var batch: MovieBatch?
    /// The movies of all loaded pages.
    package var movies: [Movie]
    package var status: Status

    package init(batch: MovieBatch? = nil, movies: [Movie] = [], status: Status = .idle) {
      self.batch = batch
      self.movies = movies
      self.status = status
    }

    /// The number of the page that is being loaded.
    package var nextPage: Int? { status == .loading ? (batch?.page ?? 0) + 1 : nil }

    /// Whether all pages are loaded.
    package var isComplete: Bool { batch.map { $0.page >= $0.totalPages } ?? false }
  }

  package enum Status: Codable, Hashable, Sendable {
    case idle
    case loading
    case failed(LoadFailure)
  }

  package enum Event: MachineEvent, Hashable {
    case didLoad(MovieBatch)
    case didFail(LoadFailure)
    /// The user has scrolled to the end of the list.
    case fetchNext
    case retry
  }

  /// The reason why an event is refused.
  package enum UnexpectedEventError: Error, CustomStringConvertible {
    /// No page is left to load.
    case complete
    /// The event is about a page other than the page that is being loaded.
    case otherPage
    /// The user retries a page, although no page has failed to load.
    case notFailed

    package var description: String {
      switch self {
      case .complete: "there is no further page"
      case .otherPage: "that page is not being loaded"
      case .notFailed: "no page has failed to load; nothing to retry"
      }
    }
  }

  package static func reducer(state: inout State, event: Event) throws(UnexpectedEventError) {
    switch event {
    case .didLoad(let batch):
      guard batch.page == state.nextPage else { throw .otherPage }
      state.movies += batch.results
      state.status = .idle
      state.batch = batch
    case .didFail(let failure):
      guard state.nextPage != nil else { throw .otherPage }
      state.status = .failed(failure)
    case .retry:
      guard case .failed = state.status else { throw .notFailed }
      state.status = .loading
    case .fetchNext:
      guard !state.isComplete else { throw .complete }
      // After a failure, the next page is loaded only when the user retries.
      if state.status == .idle { state.status = .loading }
    }
  }

  package static func feedback(_ parameters: MovieParameters) -> Feedback<State, Event> {
    let services = Services.current.merging(parameters.services)
    return Feedback(
      lensing: { $0.nextPage },
      gives: .oneOf {
        Event.didLoad
        Event.didFail
      }
    ) { page in
      await Services.with(services) {
        @Injected var service: any MovieService
        do {
          return Event.didLoad(try await service.fetchMovies(page: page))
        } catch {
          return Event.didFail(LoadFailure(error))
        }
      }
    }
  }

  package static func stateMachine(
    _ parameters: MovieParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State(), reducer: reducer)
  }

  package static func runtime(
    _ parameters: MovieParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().feedback(feedback(parameters))
  }
}

/// A view of the list that grows page by page. When the last row becomes visible, the view requests
/// the next page.
package enum MoviesPagesView: TerminalView {
  package struct Screen {
    package var state: MoviesPages.State
    var list = TerminalList()
  }

  package static let minimumSize = TerminalSize(columns: 40, rows: 6)

  package static func screen(of state: MoviesPages.State) -> Screen { Screen(state: state) }

  package static func update(
    _ screen: inout Screen, to state: MoviesPages.State, size: TerminalSize
  ) { screen.state = state }

  package static func onShow(_ screen: Screen, size: TerminalSize) -> MoviesPages.Event? {
    let state = screen.state
    guard state.status == .idle, !state.isComplete else { return nil }
    let count = state.movies.count
    return screen.list.visibleRows(of: count, height: height(state, size)).upperBound == count
      ? .fetchNext : nil
  }

  package static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    let state = screen.state
    return [StyledLine("Movies", .bold) + StyledLine("  \(state.movies.count)", .dim)]
      + screen.list.lines(of: state.movies.count, height: height(state, size)) {
        MoviesView.line(state.movies[$0])
      }
      + footer(state)
  }

  private static func footer(_ state: MoviesPages.State) -> [StyledLine] {
    switch state.status {
    case .loading: [StyledLine("Loading page \(state.nextPage ?? 1)…", .dim)]
    case .failed(let failure):
      [StyledLine("\(failure)", .color(.red)), StyledLine("r tries again", .dim)]
    case .idle:
      [StyledLine(state.isComplete ? "No more movies" : "↓ at the end loads more", .dim)]
    }
  }

  /// The number of rows that are available between the title and the footer.
  private static func height(_ state: MoviesPages.State, _ size: TerminalSize) -> Int {
    size.rows - 1 - footer(state).count
  }

  package static func press(
    _ key: Key, in screen: inout Screen, size: TerminalSize
  ) -> MoviesPages.Event? {
    let (state, rows) = (screen.state, height(screen.state, size))
    if screen.list.press(key, of: state.movies.count, height: rows) { return nil }
    if case .failed = state.status, key == .character("r") { return .retry }
    return nil
  }
}
