import PipeRuntime

/// `orchestrator ui`
struct ShowScreen: Verb {
  let description = VerbDescription(
    "ui", "Shows a running topology on the whole terminal",
    discussion:
      "Nodes with their states and rates, pipes with what is in them, composites with who withholds what, "
      + "and logs; a page about each node, with what each event would do now. Events are sent by a form, "
      + "and nodes restarted, killed and stopped, each asked first. '?' shows the keys. The topology "
      + "goes on when the screen is left. It needs a terminal: 'orchestrator monitor' and 'ps' write lines.",
    options: [.topology],
    examples: [("orchestrator ui -p shop", "The topology 'shop'")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try Self.show(arguments.target, console)
  }

  /// Shows the screen until the person leaves it.
  /// - Parameters:
  ///   - nodes: The nodes to show; all nodes if the list is empty.
  ///   - timeout: The time after which the screen closes; `nil`: no limit.
  static func show(
    _ target: TopologyTarget, nodes: [String] = [], within timeout: Duration? = nil,
    _ console: Console
  ) throws -> ExitCode {
    let directories = try target.directories
    // Signals must be blocked before any thread starts, so that every thread inherits the mask.
    let signals = try SignalDescriptor(ScreenShell.signals)
    let client = try TopologyClient.attach(
      to: directories.map { .local($0.topology) } ?? target)
    defer { client.close() }
    guard
      let shell = ScreenShell(
        client: client, directories: directories, signals: signals, nodes: nodes, timeout: timeout)
    else {
      throw CommandError(
        "'ui' needs a terminal for its input and output; 'orchestrator monitor' and 'orchestrator ps' "
          + "write lines", code: .usage)
    }
    switch shell.run() {
    case .left:
      console.note(
        "topology '\(client.topology)' goes on; 'orchestrator down \(client.choice)' stops it")
    case .terminalClosed: break
    case .topologyGone(nil): console.note("topology '\(client.topology)' has gone down")
    case .topologyGone(let problem?): throw problem
    case .failed(let error): throw error
    }
    return .success
  }
}
