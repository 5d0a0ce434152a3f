/// `orchestrator check`
struct Check: Verb {
  let description = VerbDescription(
    "check", "Checks a topology file, and its wiring against its programs",
    discussion:
      "Asks each program to describe its machines, and runs none of them. Every error is "
      + "told, with its line and column.",
    options: [
      Option("file-only", "Checks the file alone, without asking its programs"),
      .output,
    ],
    positionals: [
      Positional("FILE", .file, .some, "The topology files")
    ],
    examples: [
      (
        "orchestrator check topologies/elevator.yaml",
        "Checks the elevator and all its pipes"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    throw CommandError.notWired(self)
  }
}
