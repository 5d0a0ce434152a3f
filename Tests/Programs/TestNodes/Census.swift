import PipeRuntime

/// Prints a line for each change, with its version; one that dies when it sees a node hold nine.
enum Census: Monitor {
  struct Enough: Error {}

  static func observe(_ states: StateStream) async throws {
    for await change in states {
      print("\(change.node) \(change.incarnation).\(change.version) \(change.state.text)")
      if change.state == ["pressed": ["times": 9]] { throw Enough() }
    }
  }
}
