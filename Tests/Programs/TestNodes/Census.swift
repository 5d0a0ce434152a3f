import PipeRuntime

/// A monitor that prints a line with the version for each change. It fails when a button has been
/// pressed nine times.
enum Census: Monitor {
  struct Enough: Error {}

  static func observe(_ states: StateStream) async throws {
    for await change in states {
      print("\(change.node) \(change.incarnation).\(change.version) \(change.state.text)")
      if change.state == ["pressed": ["times": 9]] { throw Enough() }
    }
  }
}
