/// `orchestrator kill`
struct Kill: Verb {
  let description = VerbDescription(
    "kill", "Sends a signal to nodes' processes",
    discussion: "The nodes' restart policies apply, as they would to a crash.",
    options: [
      .topology,
      Option("signal", "s", value: .signal, "The signal. Default: KILL"),
    ],
    positionals: [
      Positional("NODE", .node, .some, "The nodes")
    ],
    examples: [
      (
        "orchestrator kill door",
        "Kills the door; its policy starts it again"
      ),
      (
        "orchestrator kill -s STOP door",
        "Freezes the door, until its heartbeat is missed"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
