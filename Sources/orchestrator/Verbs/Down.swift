/// `orchestrator down`
struct Down: Verb {
  let description = VerbDescription(
    "down", "Stops a topology in order",
    discussion:
      "Nodes stop before those that they depend on; each is asked, then terminated, then "
      + "killed. Returns when no process is left.",
    options: [
      .topology,
      Option("force", "f", "Kills all nodes at once"),
      Option("timeout", value: .duration, "The longest wait for the end. Default: 30s"),
    ],
    examples: [
      (
        "orchestrator down",
        "Stops the only running topology"
      ),
      (
        "orchestrator down -p elevator --force",
        "Kills the elevator"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
