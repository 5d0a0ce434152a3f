import PipeRuntime

/// The verb `orchestrator ui`.
struct ShowScreen: Verb {
  let description = VerbDescription(
    "ui", "Shows and controls a topology on the whole terminal",
    discussion:
      "Shows nodes with their states and rates, pipes with their contents, composites with the "
      + "nodes that block their events, and logs. The page of a node shows what each event "
      + "would do. You can send events with a form, and start, stop, restart and kill nodes "
      + "after a confirmation. '?' shows the keys. The topology continues when you leave the "
      + "screen. Requires a terminal; without a terminal, use 'orchestrator monitor' and 'ps'.",
    options: [.topology],
    positionals: [
      Positional(
        "RUN", .directory, .optional,
        "Not supported: 'orchestrator web RUN' and 'orchestrator replay RUN' show a recorded run")
    ],
    examples: [("orchestrator ui -p shop", "Shows the topology 'shop'")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if let run = arguments.positionals.first {
      throw CommandError(
        "'ui' shows running topologies only; 'orchestrator web \(run)' shows the recorded run in a "
          + "browser, and 'orchestrator replay \(run)' shows its steps", code: .usage)
    }
    return try Self.show(arguments.target, console)
  }

  /// Shows the screen until the user leaves it.
  /// - Parameters:
  ///   - nodes: The nodes to show. If the list is empty, all nodes are shown.
  ///   - timeout: The time after which the screen closes; `nil` means no limit.
  static func show(
    _ target: TopologyTarget, nodes: [String] = [], within timeout: Duration? = nil,
    _ console: Console
  ) throws -> ExitCode {
    let directories = try target.directories
    // Signals must be blocked before the process starts its first thread, so that all threads
    // inherit the signal mask.
    let signals = try SignalDescriptor(ScreenShell.signals)
    let client = try TopologyClient.attach(
      to: directories.map { .local($0.topology) } ?? target)
    defer { client.close() }
    guard
      let shell = ScreenShell(
        client: client, directories: directories, signals: signals, nodes: nodes, timeout: timeout)
    else {
      throw CommandError(
        "'ui' requires a terminal as standard input and output; 'orchestrator monitor' and "
          + "'orchestrator ps' write lines", code: .usage)
    }
    switch shell.run() {
    case .dismissed:
      console.note(
        "topology '\(client.topology)' keeps running; 'orchestrator down \(client.targetOptions)' "
          + "stops it")
    case .terminalClosed: break
    case .topologyGone(nil): console.note("topology '\(client.topology)' has stopped")
    case .topologyGone(let problem?): throw problem
    case .failed(let error): throw error
    }
    return .success
  }
}
