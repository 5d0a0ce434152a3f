import PipeMachines

/// A state of a node, as a view shows it.
package struct ViewContent {
  package let body: (TerminalSize) -> [StyledLine]
  /// The event of a key, as JSON.
  package let event: (Key) throws -> JSONValue?
}

extension TerminalView {
  /// Reads the states that the view shows.
  package static func reader() -> (JSONValue) throws -> ViewContent {
    let states = EventCodec<State>()
    let events = EventCodec<Event>()
    return { json in
      let state = try states.decode(json.bytes)
      return ViewContent {
        body(state, size: $0)
      } event: { key in
        try event(for: key, in: state).map { try JSONValue(parsing: events.encode($0)) }
      }
    }
  }
}
