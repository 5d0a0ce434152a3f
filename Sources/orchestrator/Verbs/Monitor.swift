import PipeRuntime

/// The verb `orchestrator monitor`.
struct MonitorNodes: Verb {
  let description = VerbDescription(
    "monitor", "Shows the states of nodes as they change",
    discussion:
      "On a terminal, shows the screen of 'orchestrator ui'; ^C leaves the screen without "
      + "affecting the topology. Without a terminal, with --plain or with -n, writes a line for "
      + "each state: first the current states in the order of the file, then the latest state of "
      + "each changed node, at most ten per second. JSON also contains the counters of the "
      + "node, and has a further line when only the counters have changed. Times are local on "
      + "a terminal, and UTC in redirected output and JSON. Monitors have no measurable cost for "
      + "the nodes, except with --every: a node that processes a million events per second then "
      + "becomes several times slower. --steps writes each step with its event, the event's "
      + "origin and the events that the step sends. --tap writes the events that a node sends "
      + "through a pipe. With --steps and --tap, at most 2,000 lines per second are written, "
      + "in bursts without gaps, with the number of skipped steps or events. A node is in "
      + "doubt if it has promised to accept a synchronized event and does not know the "
      + "decision yet. The node and its composites are then marked as in doubt, by a line with "
      + "the same version, until the decision arrives.",
    options: [
      .topology, .output,
      Option("plain", "Writes lines instead of showing the screen"),
      Option("every", "Writes every state, which slows the nodes down"),
      Option("steps", "Writes the steps, up to 2,000 per second for each node"),
      Option(
        "tap", value: .text("PIPE"),
        "Writes the events that a node sends through this pipe, up to 2,000 per second"),
      Option("count", "n", value: .count("N"), "Exits after N lines. Default: no limit"),
      Option("timeout", value: .duration, "Exits after this time. Default: no limit"),
    ],
    positionals: [
      Positional(
        "NODE", .nodeOrInstance, .any, "The nodes, or instances NODE[KEY]. Default: all nodes")
    ],
    examples: [
      ("orchestrator monitor", "Shows all nodes on the screen"),
      ("orchestrator monitor --plain door motor", "Writes lines for the states of two nodes"),
      (
        "orchestrator monitor door --every -o jsonl",
        "Writes every state of the door, one JSON object per line"
      ),
      ("orchestrator monitor motor --steps", "Writes the steps of the motor with their causes"),
      (
        "orchestrator monitor --tap 'door.arrivals->display.updates'", "Writes the events of a pipe"
      ),
    ])

  /// The subject of the output: states, steps, or the events of a pipe.
  private enum Subject {
    case states(WatchedStates)
    case steps
    case tap(String)
  }

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let subject = try subject(arguments)
    let showsScreen =
      console.canRedraw && console.canPrompt && arguments.format == .text
      && arguments.countValue("count") == nil && !arguments.contains(option: "plain")
    if showsScreen, case .states(.latest) = subject {
      return try ShowScreen.show(
        arguments.target, nodes: arguments.positionals, within: arguments.duration("timeout"),
        console)
    }
    let client = try TopologyClient.attach(to: arguments.target)
    defer { client.close() }
    let nodes = try await nodes(arguments, client)
    let lines = StreamPrinter(arguments, nodes, console)
    let code: ExitCode
    switch subject {
    case .states(let states):
      let stream = try await client.states(
        of: nodes.map(\.name), states, reportingInDoubt: true)
      code = try lines.write(stream)
    case .steps:
      let processes = Self.processes(of: nodes)
      let detector = MissingStepsDetector(of: processes, client)
      let watch = Task {
        try await detector.watch { node in
          StandardError.write(
            "warning: node '\(node)' reports no steps: its program sends no 'step' frames; "
              + "run 'orchestrator monitor' without --steps\n")
        }
      }
      defer { watch.cancel() }
      code = try lines.write(try await client.steps(of: processes.map(\.name)))
    case .tap(let pipe): code = try lines.write(try await client.tap(pipe))
    }
    if let loss = client.connectionLossError { throw loss }
    return code
  }

  /// Returns the nodes without instances: each instance is replaced by the node or shard that hosts
  /// the instance.
  private static func processes(of nodes: [NodeInformation]) -> [NodeInformation] {
    var processes: [NodeInformation] = []
    for var node in nodes {
      if let instance = InstanceName(node.name) { node.name = node.shard?.name ?? instance.node }
      if !processes.contains(node) { processes.append(node) }
    }
    return processes
  }

  private func subject(_ arguments: ParsedArguments) throws -> Subject {
    let chosenOptions = ["every", "steps", "tap"].filter(arguments.contains(option:))
    guard chosenOptions.count < 2 else {
      throw UsageError.conflict("--\(chosenOptions[0])", "--\(chosenOptions[1])")
    }
    if let pipe = arguments.value("tap") {
      guard arguments.positionals.isEmpty else {
        throw CommandError(
          "\(UsageError.conflict("--tap", "NODE")); omit '\(arguments.positionals[0])'",
          code: .usage
        )
      }
      return .tap(pipe)
    }
    return chosenOptions == ["steps"] ? .steps : .states(chosenOptions.isEmpty ? .latest : .every)
  }

  private func nodes(
    _ arguments: ParsedArguments, _ client: TopologyClient
  ) async throws -> [NodeInformation] {
    let found = try await client.directory().nodes(
      named: arguments.positionals, includingInstances: true)
    if let monitor = found.first(where: { $0.kind == .monitor }), !arguments.positionals.isEmpty {
      throw CommandError("node '\(monitor.name)' is a monitor and has no states", code: .usage)
    }
    return found.filter { $0.kind != .monitor }
  }
}

/// Finds nodes that take steps but do not report steps. A node program that implements the protocol
/// without this package does not have to report its steps.
final class MissingStepsDetector: Sendable {
  private let client: TopologyClient
  private let nodes: Set<String>
  private let reportingNodes = Locked<Set<String>>([])

  /// The pause between two reads of the nodes' counters.
  private static let checkInterval: Duration = .seconds(1)

  init(of nodes: [NodeInformation], _ client: TopologyClient) {
    self.client = client
    self.nodes = Set(nodes.filter { $0.kind == .machine }.map(\.name))
  }

  /// Calls `report` once for each node that takes steps but does not report them. Runs until the
  /// task is cancelled.
  func watch(_ report: @Sendable (_ node: String) -> Void) async throws {
    let stream = try await client.steps(of: nodes.sorted())
    let readTask = Task {
      for await message in stream {
        if case .step(let step) = message {
          self.reportingNodes.withLock { _ = $0.insert(step.node) }
        }
      }
    }
    defer { readTask.cancel() }
    var lastVersions: [String: UInt64] = [:]
    // For each node, the number of readings that have shown new steps. The first of these readings
    // does not count, since its steps may have been taken before the subscription.
    var progressCounts: [String: Int] = [:]
    while true {
      for node in try await client.directory().nodes where nodes.contains(node.name) {
        guard let version = node.status?.version else { continue }
        if progressCounts[node.name] == 2, !reportingNodes.withLock({ $0.contains(node.name) }) {
          progressCounts[node.name] = 3
          report(node.name)
        }
        if let count = lastVersions.updateValue(version, forKey: node.name), version > count {
          progressCounts[node.name, default: 0] += 1
        }
      }
      try await Task.sleep(for: Self.checkInterval)
    }
  }
}
