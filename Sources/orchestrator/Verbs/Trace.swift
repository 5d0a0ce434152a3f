import PipeRuntime
import PipeDiagrams

/// `orchestrator trace`
struct TraceRun: Verb {
  let description = VerbDescription(
    "trace", "Records the steps of a running topology and their causes",
    discussion:
      "Each step is listed below the step that sent its event; the steps of a synchronized "
      + "event are listed together. 'text' is for people; 'chrome' opens in Perfetto and "
      + "chrome://tracing, with a slice for each state and an arrow for each event; 'otlp' is "
      + "accepted by OpenTelemetry collectors at /v1/traces; 'mermaid' is a sequence diagram "
      + "of the first 300 steps. A node reports at most 2,000 steps per second: the number of "
      + "skipped steps is shown, and the arrows to and from skipped steps are missing. Up to "
      + "200,000 steps are kept. ^C ends the recording early.",
    options: [
      .topology,
      Option(
        "output", "o", value: .choice("FORMAT", TraceFormat.allCases.map(\.rawValue)),
        "Output format. Default: text"),
      Option("for", value: .duration, "How long to record. Default: 10s"),
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes and composites. Default: all")
    ],
    examples: [
      ("orchestrator trace --for 2s", "Shows the steps of two seconds and their causes"),
      ("orchestrator trace --for 10s -o chrome > trace.json", "Writes a file for ui.perfetto.dev"),
      ("orchestrator trace door motor -o mermaid", "Draws a sequence diagram of two nodes"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let format: TraceFormat = arguments.value("output") ?? .text
    let time = arguments.duration("for") ?? .seconds(10)
    // The signals must be blocked before the client's thread starts.
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let client = try TopologyClient.attach(to: arguments.target)
    defer { client.close() }
    let nodes = try await nodes(arguments, client)
    var recorder = TraceRecorder(
      topology: client.topology, nodes: nodes, classes: try await client.conflictClasses())
    let reader = try BlockingStreamReader(try await client.steps(of: nodes))
    let deadline = ContinuousClock.now + time
    var lossDetector = LostMessageDetector()
    following: while true {
      switch reader.next(console: console, until: deadline, or: signals.descriptor) {
      case .change(let message):
        let followed = lossDetector.take(message)
        if case .step(let step) = followed.content { recorder.take(step, lost: followed.lost) }
      case .ended, .timedOut, .interrupted: break following
      case .readerGone: return .success
      }
    }
    let trace = recorder.trace
    if trace.steps.isEmpty {
      console.note("no node took a step within \(time.shortText)")
    }
    for (node, count) in trace.untold.sorted(by: { $0.key < $1.key }) where format != .text {
      console.note("node '\(node)': \(count) steps were skipped")
    }
    try format.write(trace) { try console.write($0) }
    try console.flush()
    return .success
  }

  /// Returns the nodes whose steps are followed, in the order of the file.
  private func nodes(
    _ arguments: ParsedArguments, _ client: TopologyClient
  ) async throws -> [String] {
    let found = try await client.directory().nodes(named: arguments.positionals)
    if let monitor = found.first(where: { $0.kind == .monitor }), !arguments.positionals.isEmpty {
      throw CommandError("node '\(monitor.name)' is a monitor and takes no steps", code: .usage)
    }
    return found.filter { $0.kind != .monitor }.map(\.name)
  }
}
