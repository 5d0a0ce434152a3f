/// `orchestrator stop`
struct Stop: Verb {
  let description = VerbDescription(
    "stop", "Stops nodes in order, and keeps them stopped",
    options: [
      .topology,
      Option("timeout", value: .duration, "The longest wait for their end. Default: 30s"),
    ],
    positionals: [
      Positional("NODE", .node, .some, "The nodes")
    ],
    examples: [
      (
        "orchestrator stop door motor",
        "Stops two nodes; the others go on"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
