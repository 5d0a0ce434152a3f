import PipeRuntime

/// A monitor that prints a line for each state of the watched nodes.
package enum StateLog: Monitor {
  package static func observe(_ states: StateStream) async throws {
    for await change in states {
      let missed = change.missedCount > 0 ? " (\(change.missedCount) earlier states missed)" : ""
      print("\(change.node) \(change.state.text) after \(change.cause)\(missed)")
    }
  }
}
