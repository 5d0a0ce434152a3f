import PipeRuntime

/// `orchestrator completion`
struct Completion: Verb {
  let description = VerbDescription(
    "completion", "Prints the completion script of a shell",
    positionals: [
      Positional(
        "SHELL", .choice("SHELL", Shell.allCases.map(\.rawValue)), .one, "bash, zsh or fish")
    ],
    examples: [("source <(orchestrator completion bash)", "Completion in this shell")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    guard let shell = arguments.positionals.first.flatMap(Shell.init) else {
      throw UsageError.missingPositional("SHELL", of: description.command)
    }
    try console.write(shell.completion(of: Verbs.descriptions))
    return .success
  }
}
