/// `orchestrator describe`
struct Describe: Verb {
  let description = VerbDescription(
    "describe", "Shows nodes' machines: states, events and ports",
    options: [
      .topology,
      .output,
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes. Default: all")
    ],
    examples: [
      (
        "orchestrator describe door -o json",
        "What the door says of itself"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
