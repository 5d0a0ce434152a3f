/// `orchestrator restart`
struct Restart: Verb {
  let description = VerbDescription(
    "restart", "Stops nodes in order and starts them again",
    discussion: "A restart by hand does not count against the policy's limit.",
    options: [
      .topology,
      Option("timeout", value: .duration, "The longest wait until they run. Default: 30s"),
    ],
    positionals: [
      Positional("NODE", .node, .some, "The nodes")
    ],
    examples: [
      (
        "orchestrator restart door",
        "A new process for the door"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
