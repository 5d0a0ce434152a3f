import PipeMachines

/// A state of a node, as a view shows it.
package protocol ViewContent {
  func body(size: TerminalSize) -> [StyledLine]
  /// The event of a key, as JSON.
  func event(for key: Key) throws -> JSONValue?
}

/// Reads the states that a view shows.
package protocol ViewReader {
  func read(_ state: JSONValue) throws -> any ViewContent
}

extension TerminalView {
  /// A reader of the view's states.
  package static func reader() -> any ViewReader { ViewStateReader<Self>() }
}

private final class ViewStateReader<View: TerminalView>: ViewReader {
  private let codec = EventCodec<View.State>()

  func read(_ state: JSONValue) throws -> any ViewContent {
    ViewedState<View>(state: try codec.decode(state.bytes))
  }
}

private struct ViewedState<View: TerminalView>: ViewContent {
  let state: View.State

  func body(size: TerminalSize) -> [StyledLine] { View.body(state, size: size) }

  func event(for key: Key) throws -> JSONValue? {
    guard let event = View.event(for: key, in: state) else { return nil }
    return try JSONValue(parsing: EventCodec<View.Event>().encode(event))
  }
}
