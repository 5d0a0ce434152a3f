import PipeRuntime

/// Which topology a verb means that works on one that has ended, too.
enum TopologyChoice {
  /// The directories of the topology meant, which may have ended: one that runs is preferred.
  /// - Parameter wanted: What it must have, in words.
  static func withState(
    _ arguments: ParsedArguments, wanted: String
  ) throws -> RuntimeDirectories {
    let roots = RuntimeRoots()
    let known = FileSystem.entries(of: roots.state).filter { name in
      // On another host than the orchestrator's there may be journals alone.
      (try? RuntimeDirectories(topology: name, roots: roots))
        .map { FileSystem.isDirectory($0.logs) || FileSystem.isDirectory($0.journals) } ?? false
    }
    if let name = arguments.topology {
      guard known.contains(name) else {
        throw CommandError(
          "topology '\(name)' has no \(wanted) here" + hint(name, known), code: .notRunning)
      }
      return try RuntimeDirectories(topology: name, roots: roots)
    }
    let running = RunningTopology.all(in: roots).map(\.name)
    let candidates = running.isEmpty ? known : running
    switch candidates.count {
    case 0: throw CommandError("no topology has run here yet", code: .notRunning)
    case 1: return try RuntimeDirectories(topology: candidates[0], roots: roots)
    default: throw ambiguous(candidates, running.isEmpty ? "known" : "running")
    }
  }

  private static func ambiguous(_ names: [String], _ adjective: String) -> CommandError {
    CommandError(
      "\(names.count) topologies are \(adjective): choose one with -p: "
        + names.joined(separator: ", "), code: .usage)
  }

  private static func hint(_ name: String, _ names: [String]) -> String {
    names.isEmpty ? "" : Suggestion.among(names, like: name, verb: "there are")
  }
}
