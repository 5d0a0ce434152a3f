/// `orchestrator send`
struct Send: Verb {
  let description = VerbDescription(
    "send", "Sends an event to a node",
    discussion:
      "An event without a payload is a bare label. Exit code 1: the node refused it. 124: "
      + "no answer in time.",
    options: [
      .topology,
      .output,
      Option("timeout", value: .duration, "The longest wait for the answer. Default: 5s"),
    ],
    positionals: [
      Positional("NODE", .node, .one, "The node"),
      Positional("EVENT", .text("EVENT"), .one, "The event: a label, or JSON"),
    ],
    examples: [
      (
        "orchestrator send door closeButtonWasPressed",
        "An event without a payload"
      ),
      (
        "orchestrator send door '{\"personsHaveEntered\":{\"persons\":3}}'",
        "An event with one"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
