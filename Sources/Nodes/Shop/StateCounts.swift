import Glibc
import PipeRuntime

/// A monitor that writes a CSV file: the number of instances of each node in each state, over time.
package enum StateCounts: ParameterizedMonitor {
  package static let watches = WatchedStates.latest

  package struct Parameters: MachineParameters {
    /// The path of the file, relative to the directory of the topology file. Rows are appended.
    package var file = "shop.csv"
    package init() {}
  }

  package static func observe(_ states: StateStream, _ parameters: Parameters) async throws {
    let path = TopologyFile.path(of: parameters.file)
    guard let file = fopen(path, "ae") else {
      throw StateCountsError(
        description: "cannot write '\(path)': \(String(cString: strerror(errno))); "
          + "set the parameter 'file' to another path")
    }
    defer { fclose(file) }
    setvbuf(file, nil, _IOLBF, 0)
    fseek(file, 0, SEEK_END)
    if ftell(file) == 0 { fputs("milliseconds,node,state,count\n", file) }
    var counts: [String: [String: Int64]] = [:]
    for await change in states {
      let former = counts[change.node] ?? [:]
      let current = self.counts(in: change.state)
      counts[change.node] = current
      for (state, count) in changes(from: former, to: current) {
        fputs("\(change.time / 1_000_000),\(change.node),\(state),\(count)\n", file)
      }
    }
  }

  /// Returns the number of instances by state, as the state of a node with a `key` lists them.
  package static func counts(in state: JSONValue) -> [String: Int64] {
    guard case .object(let members) = state else { return [:] }
    return members.compactMapValues(\.integer)
  }

  /// Returns the counts that differ. The count of a state that is not listed is 0.
  package static func changes(
    from former: [String: Int64], to current: [String: Int64]
  ) -> [(state: String, count: Int64)] {
    Set(former.keys).union(current.keys).sorted()
      .filter { former[$0] ?? 0 != current[$0] ?? 0 }
      .map { ($0, current[$0] ?? 0) }
  }
}

/// The error that the file of a monitor cannot be written.
struct StateCountsError: Error, CustomStringConvertible {
  let description: String
}
