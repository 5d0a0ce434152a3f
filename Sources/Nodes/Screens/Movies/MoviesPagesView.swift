import PipeRuntime

/// The list that grows on a terminal: its next page is fetched when its last row is in sight.
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
    return screen.list.window(of: count, height: height(state, size)).upperBound == count
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
    case .loading: [StyledLine("Page \(state.nextPage ?? 1) is being loaded…", .dim)]
    case .failed(let failure):
      [StyledLine("\(failure)", .color(.red)), StyledLine("r tries again", .dim)]
    case .idle:
      [StyledLine(state.isComplete ? "These are all" : "↓ at the end loads more", .dim)]
    }
  }

  /// The rows of the list, between its title and what stands below.
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
