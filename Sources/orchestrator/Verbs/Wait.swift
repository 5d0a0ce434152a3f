/// `orchestrator wait`
struct Wait: Verb {
  let description = VerbDescription(
    "wait", "Waits until nodes are in given states",
    discussion:
      "A state's label stands for the state whatever its values are. All conditions hold "
      + "at some moment each. Exit code 124: not in time.",
    options: [
      .topology,
      .output,
      Option("timeout", value: .duration, "The longest wait. Default: no limit"),
    ],
    positionals: [
      Positional("NODE=STATE", .text("NODE=STATE"), .some, "The states to wait for")
    ],
    examples: [
      (
        "orchestrator wait door=closed --timeout 10s",
        "Returns when the door is closed"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
