import PipeRuntime

/// `orchestrator help`, `orchestrator --help`, `orchestrator VERB --help`
struct Help: Verb {
  let description = VerbDescription(
    "help", "Shows help about a verb, or the list of verbs",
    positionals: [Positional("VERB", .text("VERB"), .optional, "The verb")],
    examples: [("orchestrator help up", "What 'up' does and takes")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let help = HelpText(style: console.style, columns: console.size.columns)
    guard let name = arguments.positionals.first else {
      try console.write(help.overview(Verbs.descriptions))
      return .success
    }
    guard let verb = Verbs.descriptions.first(where: { $0.name == name }) else {
      throw Self.unknown(name, among: Verbs.descriptions.map(\.name))
    }
    try console.write(help.page(verb))
    return .success
  }

  static func unknown(_ name: String, among verbs: [String]) -> UsageError {
    .unknownVerb(
      name, suggestion: Suggestion.closest(to: name, among: verbs), of: "orchestrator")
  }
}
