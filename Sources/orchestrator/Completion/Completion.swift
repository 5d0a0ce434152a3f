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

/// The shells that completion is written for.
package enum Shell: String, CaseIterable, Sendable {
  case bash, zsh, fish

  /// The completion script, made from the verbs' descriptions.
  package func completion(of verbs: [VerbDescription]) -> String {
    switch self {
    case .bash: BashCompletion(verbs: verbs).script
    case .zsh: ZshCompletion(verbs: verbs).script
    case .fish: FishCompletion(verbs: verbs).script
    }
  }
}

/// The words that only the command itself knows, and only when they are asked for.
enum ListedWords {
  case topologies
  /// Of the topology meant, or else of the file.
  case nodes
  /// Of the node before, in the same topology.
  case events

  /// What lists the topologies.
  static let listTopologies = "orchestrator ls --quiet 2>/dev/null"
}

extension ValueKind {
  /// The words that can stand here, where they are known beforehand.
  var fixedWords: [String]? {
    switch self {
    case .choice(_, let choices): choices
    case .signal: ["TERM", "KILL", "INT", "HUP", "STOP", "CONT", "USR1", "USR2"]
    case .text, .count, .duration, .moment, .topology, .node, .event, .file, .fileOrNode,
      .directory, .endpoint:
      nil
    }
  }

  /// What each shell completes the paths with that can stand here.
  var pathCompletion: (bash: String, zsh: String, fish: String)? {
    switch self {
    case .file, .fileOrNode: ("compgen -f", "_files", "-F")
    case .directory: ("compgen -d", "_files -/", "-a '(__fish_complete_directories)'")
    case .text, .count, .duration, .moment, .choice, .topology, .node, .event, .endpoint, .signal:
      nil
    }
  }

  /// The words that are listed when they can stand here.
  var listedWords: ListedWords? {
    switch self {
    case .topology: .topologies
    case .node, .fileOrNode: .nodes
    case .event: .events
    case .text, .count, .duration, .moment, .choice, .file, .directory, .endpoint, .signal:
      nil
    }
  }
}

extension VerbDescription {
  /// The options that a value follows, as they stand on a command line.
  fileprivate var valuedOptions: [String] {
    allOptions.filter { $0.value != nil }.flatMap(\.names)
  }

  /// Patterns of a shell's `case` for `VERB:OPTION`, of the options that a value follows; those that
  /// stand before the verb are behind a colon alone.
  static func valuedPatterns(of verbs: [VerbDescription]) -> [String] {
    Option.valuedBeforeVerb.flatMap(\.names).map { ":" + $0 }
      + verbs.flatMap { verb in verb.valuedOptions.map { "\(verb.name):\($0)" } }
  }
}

extension Option {
  /// `-p` and `--topology`
  var names: [String] { (short.map { ["-\($0)"] } ?? []) + ["--" + long] }
}
