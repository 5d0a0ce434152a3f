import PipeRuntime

/// `orchestrator help`, `orchestrator --help`, `orchestrator VERB --help`
struct Help: Verb {
  let description = VerbDescription(
    "help", "Shows help about a verb, or the list of verbs",
    positionals: [Positional("VERB", .text("VERB"), .optional, "The verb")],
    examples: [("orchestrator help up", "Shows the options and examples of 'up'")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let help = HelpText(style: console.style, columns: console.size.columns)
    guard let name = arguments.positionals.first else {
      try console.write(help.overview(Verbs.descriptions))
      return .success
    }
    let current = Verbs.formerNames[name] ?? name
    guard let verb = Verbs.descriptions.first(where: { $0.name == current }) else {
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

extension HelpText {
  package init(style: Style, columns: Int) {
    self.init(columns: columns) { style.bold($0) }
  }

  /// Returns the text of `orchestrator --help`.
  package func overview(_ verbs: [VerbDescription]) -> String {
    """
    \(heading("Usage:")) orchestrator VERB [OPTIONS] [ARGUMENTS]

    Runs topologies of state machines: a process per node, a ZeroMQ socket pair per pipe.

    \(section("Verbs:", definitionList(verbs.map { ($0.name, $0.summary) })))

    \(section("Options of most verbs:", definitionList(options(Option.withValueBeforeVerb + Option.universal))))

    \(section("Exit codes:", definitionList(Self.exitCodes)))

    Run 'orchestrator help VERB' for more information about a verb.

    """
  }

  private static let exitCodes = [
    ("0", "success, or an orderly stop"),
    ("1", "failed, or the event was refused"),
    ("2", "wrong usage, or an invalid topology"),
    ("3", "no such topology is running"),
    ("4", "'why': the event is blocked"),
    ("5", "'why': the event's values decide, or only a run can decide"),
    ("6", "'check --explore': the search is incomplete and found no error"),
    ("124", "a wait timed out"),
    ("130", "ended by a second ^C"),
  ]
}

/// `orchestrator version`, `orchestrator --version`
struct ShowVersion: Verb {
  /// A semantic version. The major number changes with the wire protocol or the topology file
  /// format.
  static let current = "0.3.0"

  let description = VerbDescription(
    "version", "Shows the version", options: [.output],
    examples: [("orchestrator version -o json", "Prints the version as JSON, for scripts")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try console.print(
      ["version": .string(Self.current)], as: arguments.format,
      lines: ["orchestrator \(Self.current)"])
    return .success
  }
}
