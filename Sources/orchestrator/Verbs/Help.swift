import PipeRuntime

/// The verb `orchestrator help`, also as `orchestrator --help` and `orchestrator VERB --help`.
struct Help: Verb {
  let description = VerbDescription(
    "help", "Shows help about a verb, or the list of verbs",
    options: [
      Option("man", "Prints the manual page of all verbs, for man(1). Cannot be used with VERB")
    ],
    positionals: [Positional("VERB", .text("VERB"), .optional, "The verb")],
    examples: [("orchestrator help up", "Shows the options and examples of 'up'")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if arguments.contains(option: "man") {
      if let extra = arguments.positionals.first {
        throw UsageError.extraPositional(extra, of: description.command)
      }
      try console.write(manualPage)
      return .success
    }
    let help = HelpText(style: console.style, columns: console.size.columns)
    guard let name = arguments.positionals.first else {
      try console.write(help.overview(Verbs.descriptions))
      return .success
    }
    let current = Verbs.formerNames[name] ?? name
    guard let verb = Verbs.descriptions.first(where: { $0.name == current }) else {
      throw Self.unknownVerbError(name, among: Verbs.descriptions.map(\.name))
    }
    try console.write(help.helpPage(verb))
    return .success
  }

  private var manualPage: String {
    ManualPage(of: "orchestrator").page(
      "runs topologies of state machines", verbs: Verbs.descriptions,
      exitCodes: HelpText.exitCodes, related: ["inspector"])
  }

  static func unknownVerbError(_ name: String, among verbs: [String]) -> UsageError {
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
    \(styleHeading("Usage:")) orchestrator VERB [OPTIONS] [ARGUMENTS]

    Runs topologies of state machines: a process per node, a ZeroMQ socket pair per pipe.

    \(section("Verbs:", definitionList(verbs.map { ($0.name, $0.summary) })))

    \(section("Options of most verbs:", definitionList(optionRows(Option.withValueBeforeVerb + Option.universal))))

    \(section("Exit codes:", definitionList(Self.exitCodes)))

    Run 'orchestrator help VERB' for more information about a verb.

    """
  }

  fileprivate static let exitCodes = [
    ("0", "success, or a graceful stop"),
    ("1", "failed, or the event was refused"),
    ("2", "wrong usage, or an invalid topology"),
    ("3", "the topology is not running"),
    ("4", "'why': the event is blocked"),
    ("5", "'why': the answer depends on the event's values, or on an asynchronous transition"),
    ("6", "'check --explore': the search is incomplete and found no error"),
    ("124", "a wait timed out"),
    ("130", "ended by a second ^C"),
  ]
}

/// The verb `orchestrator version`, also as `orchestrator --version`.
struct ShowVersion: Verb {
  let description = VerbDescription(
    "version", "Shows the version", options: [.output],
    examples: [("orchestrator version -o json", "Prints the version as JSON, for scripts")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try console.print(
      ["version": .string(Release.version)], as: arguments.format,
      lines: ["orchestrator \(Release.version)"])
    return .success
  }
}
