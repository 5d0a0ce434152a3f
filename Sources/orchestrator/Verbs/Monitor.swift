import PipeRuntime

/// `orchestrator monitor`
struct Watch: Verb {
  let description = VerbDescription(
    "monitor", "Shows the nodes' states: the present ones, then every change",
    discussion: "Any number of monitors can come and go; no node feels them.",
    options: [
      .topology,
      .output,
      Option("count", "n", value: .count("N"), "Ends after so many lines. Default: no limit"),
      Option("timeout", value: .duration, "Ends after this time. Default: no limit"),
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes. Default: all")
    ],
    examples: [
      (
        "orchestrator monitor",
        "The live view of all nodes"
      ),
      (
        "orchestrator monitor door -o jsonl",
        "Every state of the door, a JSON object per line"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let nodes = arguments.positionals
    let client = try TopologyClient.attach(to: arguments.topology)
    defer { client.close() }
    let (watched, stream) = try Blocking.attempt {
      let found = try await client.directory().nodes(named: nodes)
      if let monitor = found.first(where: { $0.kind == .monitor }), !nodes.isEmpty {
        throw CommandError("node '\(monitor.name)' is a monitor and has no states", code: .usage)
      }
      let names = found.filter { $0.kind != .monitor }.map(\.name)
      return (names, try await client.states(of: names))
    }
    let deadline = arguments.duration("timeout").map { ContinuousClock.now + $0 }
    let limit = arguments.count("count") ?? .max
    let width = watched.map(\.displayWidth).max() ?? 0
    let reader = try ChangeReader(stream)
    var records: [JSONValue] = []
    var count = 0
    reading: while count < limit {
      switch reader.next(console: console, until: deadline) {
      case .change(let change):
        count += 1
        switch arguments.format {
        case .text:
          let color = watched.firstIndex(of: change.node) ?? 0
          try console.print(change.line(nodeWidth: width, style: console.style, color: color))
        case .json: records.append(change.record)
        case .jsonl: try console.print(change.record)
        }
        try console.flush()
      case .ended, .readerGone, .timedOut: break reading
      }
    }
    if arguments.format == .json { try console.print(.array(records)) }
    return .success
  }
}
