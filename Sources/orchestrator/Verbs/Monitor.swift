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
    throw CommandError.notWired(self)
  }
}
