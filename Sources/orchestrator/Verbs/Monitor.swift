import PipeRuntime

/// `orchestrator monitor`
struct Watch: Verb {
  let description = VerbDescription(
    "monitor", "Shows the nodes' states as they change",
    discussion:
      "On a terminal it shows the live view; ^C leaves that, and the topology goes on. Otherwise, with "
      + "--plain or with -n it writes a line for each state: the present ones in the order of the "
      + "file, then every change, with its time, local on a terminal, and UTC in pipes and JSON. Any "
      + "number of monitors can come and go; no node feels them. A node that has promised to take an "
      + "event together with others, and is not told the end, is in doubt: it and its composites are "
      + "marked so, by a line of the same version, until it is told.",
    options: [
      .topology, .output,
      Option("plain", "Writes lines instead of the live view"),
      Option("count", "n", value: .count("N"), "Ends after so many lines. Default: no limit"),
      Option("timeout", value: .duration, "Ends after this time. Default: no limit"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes. Default: all")],
    examples: [
      ("orchestrator monitor", "The live view of all nodes"),
      ("orchestrator monitor --plain door motor", "A line for every state of the two"),
      ("orchestrator monitor door -o jsonl", "Every state of the door, a JSON object per line"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let isLive =
      console.canRedraw && arguments.format == .text && arguments.count("count") == nil
      && !arguments.flag("plain")
    guard !isLive else {
      return try LiveMonitor(
        topology: arguments.topology, nodes: arguments.positionals,
        within: arguments.duration("timeout")
      ).run(console: console)
    }
    return try await writeStates(arguments, console)
  }

  private func writeStates(
    _ arguments: ParsedArguments, _ console: Console
  ) async throws -> ExitCode {
    let nodes = arguments.positionals
    let client = try TopologyClient.attach(to: arguments.topology)
    defer { client.close() }
    let found = try await client.directory().nodes(named: nodes)
    if let monitor = found.first(where: { $0.kind == .monitor }), !nodes.isEmpty {
      throw CommandError("node '\(monitor.name)' is a monitor and has no states", code: .usage)
    }
    let watched = found.filter { $0.kind != .monitor }
    let stream = try await client.states(of: watched.map(\.name), tellingInDoubt: true)
    let deadline = arguments.duration("timeout").map { ContinuousClock.now + $0 }
    let patience = ContinuousClock.now + Self.patience
    let reader = try ChangeReader(stream)
    var first = FirstStates(
      of: watched.map(\.name), awaited: watched.filter(\.isRunning).map(\.name))
    var writer = StateWriter(
      nodes: watched, format: arguments.format, limit: arguments.count("count") ?? .max)
    reading: while !writer.isDone {
      let limit = first.isCollecting ? min(deadline ?? patience, patience) : deadline
      switch reader.next(console: console, until: limit) {
      case .change(let change): try writer.write(first.take(change), to: console)
      case .timedOut where limit != deadline: try writer.write(first.giveUp(), to: console)
      case .ended, .timedOut:
        try writer.write(first.giveUp(), to: console)
        break reading
      case .readerGone: break reading
      }
    }
    try writer.finish(console)
    return .success
  }

  /// How long the first states are waited for to be put in order.
  private static let patience: Duration = .seconds(2)
}

/// Writes changes of states as `-o` asks.
private struct StateWriter {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// Unit: lines.
  private let limit: Int
  private let width: Int
  private var count = 0
  private var records: [JSONValue] = []
  private var doubtful: Set<String> = []

  init(nodes: [NodeInformation], format: OutputFormat, limit: Int) {
    self.nodes = nodes
    self.format = format
    self.limit = limit
    width = nodes.map(\.name.displayWidth).max() ?? 0
  }

  var isDone: Bool { count >= limit }

  mutating func write(_ changes: [StateChange], to console: Console) throws {
    for change in changes where !isDone {
      count += 1
      let wasInDoubt = doubtful.contains(change.node)
      if change.doubts.isEmpty {
        doubtful.remove(change.node)
      } else {
        doubtful.insert(change.node)
      }
      switch format {
      case .text:
        let place = nodes.firstIndex { $0.name == change.node }
        try console.print(
          change.line(
            nodeWidth: width, fields: place.flatMap { nodes[$0].stateFields },
            style: console.style, color: place ?? 0, wasInDoubt: wasInDoubt))
      case .json: records.append(change.record)
      case .jsonl: try console.print(change.record)
      }
    }
    try console.flush()
  }

  func finish(_ console: Console) throws {
    if format == .json { try console.print(.array(records)) }
  }
}
