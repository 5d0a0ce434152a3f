/// `orchestrator start`
struct Start: Verb {
  let description = VerbDescription(
    "start", "Starts nodes that are stopped or failed",
    options: [
      .topology,
      Option("timeout", value: .duration, "The longest wait until they run. Default: 30s"),
    ],
    positionals: [
      Positional("NODE", .node, .some, "The nodes")
    ],
    examples: [
      (
        "orchestrator start door",
        "Starts the door again"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
