import PipeRuntime

/// `orchestrator ps`
struct Processes: Verb {
  let description = VerbDescription(
    "ps", "Lists the nodes of a running topology with their processes",
    options: [
      .topology,
      .output,
      Option("quiet", "q", "Writes the nodes' names only"),
    ],
    examples: [
      (
        "orchestrator ps",
        "Node, status, pid, uptime, events, restarts and state"
      ),
      (
        "orchestrator ps -o jsonl -p elevator",
        "The same, a JSON object per line"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let directory = try arguments.onTopology { try await $0.directory() }
    if arguments.flag("quiet") {
      for node in directory.nodes { try console.print(node.name) }
      return .success
    }
    let now = WallClock.nanoseconds
    try console.print(directory.nodes.map { $0.record(now: now) }, as: arguments.format) {
      LiveView.table(directory.rows(now: now))
    }
    return .success
  }
}
