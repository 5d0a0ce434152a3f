import PipeRuntime
import PipeDiagrams

/// The verb `orchestrator trace`.
struct TraceRun: Verb {
  let description = VerbDescription(
    "trace", "Records the steps of a running topology and their causes",
    discussion:
      "Each step is listed below the step that sent its event; the steps of a synchronized event "
      + "are listed together. 'text' is for people. Perfetto and chrome://tracing open "
      + "'chrome', with a slice for each state and an arrow for each event. OpenTelemetry "
      + "collectors accept 'otlp' at /v1/traces. 'mermaid' is a sequence diagram of the first "
      + "300 steps. A node reports at most 2,000 steps per second; further steps are skipped. "
      + "The number of skipped steps is shown, and arrows to and from them are missing. At "
      + "most 200,000 steps are recorded. ^C ends the recording early. With --event, the trace has "
      + "only the causes and the effects of one step.",
    options: [
      .topology,
      Option(
        "output", "o", value: .choice("FORMAT", TraceFormat.allCases.map(\.rawValue)),
        "Output format. Default: text"),
      Option("for", value: .duration, "How long to record. Default: 10s"),
      Option(
        "event", value: .text("NODE@VERSION"),
        "Shows only one step, with its causes and effects: the step of NODE to this version or, "
          + "without @VERSION, the first recorded step of NODE"),
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes and composites. Default: all")
    ],
    examples: [
      ("orchestrator trace --for 2s", "Shows the steps of two seconds and their causes"),
      ("orchestrator trace --for 10s -o chrome > trace.json", "Writes a file for ui.perfetto.dev"),
      ("orchestrator trace door motor -o mermaid", "Draws a sequence diagram of two nodes"),
      ("orchestrator trace --event door@8", "Shows what causes the door's step to version 8"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let format: TraceFormat = arguments.value("output") ?? .text
    let time = arguments.duration("for") ?? .seconds(10)
    // Signals must be blocked before the client starts its thread.
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let client = try TopologyClient.attach(to: arguments.target)
    defer { client.close() }
    let nodes = try await nodes(arguments, client)
    let followed = try arguments.value("event").map { try FollowedStep($0, among: nodes) }
    var recorder = TraceRecorder(
      topology: client.topology, nodes: nodes, classes: try await client.conflictClasses())
    let reader = try BlockingStreamReader(try await client.steps(of: nodes))
    let deadline = ContinuousClock.now + time
    var lossDetector = LostMessageDetector()
    following: while true {
      switch reader.next(console: console, until: deadline, or: signals.descriptor) {
      case .change(let message):
        let received = lossDetector.take(message)
        if case .step(let step) = received.content { recorder.take(step, lost: received.lostCount) }
      case .ended, .timedOut, .interrupted: break following
      case .readerGone: return .success
      }
    }
    var trace = recorder.trace
    if let followed { trace = try followed.trace(in: trace) }
    if trace.steps.isEmpty {
      console.note("no node took a step within \(time.shortText)")
    }
    for (node, count) in trace.missingStepCounts.sorted(by: { $0.key < $1.key })
    where format != .text {
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

/// The step that `trace --event` follows.
private struct FollowedStep {
  private let node: String
  /// The version; `nil` for the first recorded step.
  private let version: UInt64?

  init(_ text: String, among nodes: [String]) throws {
    let parts = text.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
    node = String(parts[0])
    version = parts.count == 2 ? UInt64(parts[1]) : nil
    guard parts.count == 1 || version != nil else {
      throw CommandError(
        "--event: '\(text)' is not NODE@VERSION, such as door@8", code: .usage)
    }
    guard nodes.contains(node) else {
      throw TopologyClientError.unknownNode(node, known: nodes)
    }
  }

  /// Returns the step with its causes and effects.
  func trace(in trace: Trace) throws(CommandError) -> Trace {
    if let index = trace.index(ofStepOf: node, version: version) { return trace.following(index) }
    let versions = trace.steps.filter { $0.node == node }.map(\.nodeStep.version)
    guard let least = versions.min(), let most = versions.max() else {
      throw CommandError(
        "node '\(node)' took no step during the recording; record for longer with --for")
    }
    throw CommandError(
      "the step of '\(node)' to version \(version ?? 0) was not recorded; the recorded versions of "
        + "'\(node)' are \(least) to \(most)")
  }
}
