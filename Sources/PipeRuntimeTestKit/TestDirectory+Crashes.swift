import Glibc
import PipeLogs
import PipeRuntime
import PipeSupervision

extension TestDirectory {
  /// The signals by which a program ends itself: a trap, an abort, a bad address. No test sends them.
  private static let crashSignals = [
    SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPIPE,
  ].map { Signal(number: $0) }

  /// The processes of nodes in this directory that crashed, as the nodes' logs tell.
  /// - Parameter expected: Nodes that the test has crash.
  package func crashes(except expected: Set<String> = []) -> [String] {
    let ends = Dictionary(
      uniqueKeysWithValues: Self.crashSignals.map { signal in
        ("\(NodeReport.exited(.signalled(number: signal.number)))", signal)
      })
    return FileSystem.entries(of: roots.state).flatMap { topology -> [String] in
      guard let directories = try? RuntimeDirectories(topology: topology, roots: roots) else {
        return []
      }
      var logs = LogReader(directory: directories.logs)
      return logs.next().compactMap { entry in
        guard entry.stream == .note, !expected.contains(entry.node) else { return nil }
        return ends[entry.text].map { "node '\(entry.node)' of '\(topology)' crashed: \($0)" }
      }
    }
  }
}
