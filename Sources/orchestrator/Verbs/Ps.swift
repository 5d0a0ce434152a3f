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
    throw CommandError.notWired(self)
  }
}
