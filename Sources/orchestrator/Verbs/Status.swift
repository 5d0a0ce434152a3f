/// `orchestrator status`
struct Status: Verb {
  let description = VerbDescription(
    "status", "Tells whether a topology runs and how its nodes are",
    discussion: "Exit code 0: all nodes run. 1: one does not. 3: the topology does not run.",
    options: [
      .topology,
      .output,
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes. Default: all")
    ],
    examples: [
      (
        "orchestrator status door && echo fine",
        "Asks about one node"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
