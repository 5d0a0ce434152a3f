import PipeRuntime

/// `orchestrator monitor`
struct Watch: Verb {
  let description = VerbDescription(
    "monitor", "Shows the nodes' states: the present ones, then every change",
    discussion:
      "Any number of monitors can come and go; no node feels them. A node that has promised to take "
      + "an event together with others, and is not told the end, is in doubt: it and its composites "
      + "are marked so, by a line of the same version, until it is told.",
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
      let watched = found.filter { $0.kind != .monitor }
      return (watched, try await client.states(of: watched.map(\.name), tellingDoubts: true))
    }
    let deadline = arguments.duration("timeout").map { ContinuousClock.now + $0 }
    let limit = arguments.count("count") ?? .max
    let width = watched.map(\.name.displayWidth).max() ?? 0
    let reader = try ChangeReader(stream)
    var records: [JSONValue] = []
    var count = 0
    var doubtful: Set<String> = []
    reading: while count < limit {
      switch reader.next(console: console, until: deadline) {
      case .change(let change):
        count += 1
        let wasInDoubt = doubtful.contains(change.node)
        if change.doubts.isEmpty {
          doubtful.remove(change.node)
        } else {
          doubtful.insert(change.node)
        }
        switch arguments.format {
        case .text:
          let place = watched.firstIndex { $0.name == change.node }
          try console.print(
            change.line(
              nodeWidth: width, fields: place.flatMap { watched[$0].stateFields },
              style: console.style, color: place ?? 0, wasInDoubt: wasInDoubt))
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
