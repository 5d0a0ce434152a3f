import PipeRuntime

/// The verb `orchestrator completion`.
struct Completion: Verb {
  let description = VerbDescription(
    "completion", "Prints a completion script for a shell",
    positionals: [
      Positional(
        "SHELL", .choice("SHELL", Shell.allCases.map(\.rawValue)), .one, "bash, zsh or fish")
    ],
    examples: [
      ("source <(orchestrator completion bash)", "Enables completion in the current shell")
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    guard let shell = arguments.positionals.first.flatMap(Shell.init) else {
      throw UsageError.missingPositional("SHELL", of: description.command)
    }
    try console.write(shell.completion(of: Verbs.descriptions))
    return .success
  }
}

/// The shells that have a completion script.
package enum Shell: String, CaseIterable, Sendable {
  case bash, zsh, fish

  /// Returns the completion script, generated from the descriptions of the verbs.
  package func completion(of verbs: [VerbDescription]) -> String {
    switch self {
    case .bash: BashCompletion(verbs: verbs).script
    case .zsh: ZshCompletion(verbs: verbs).script
    case .fish: FishCompletion(verbs: verbs).script
    }
  }
}

/// The kinds of words that a completion script gets by running `orchestrator`.
enum CompletionSource {
  case topologies
  /// The nodes of the topology that the command line names. If the command line names only a
  /// topology file, the nodes in this file.
  case nodes
  /// The events of the node that the command line names before the event.
  case events

  /// The shell command that lists the topologies.
  static let listTopologiesCommand = "orchestrator ls --quiet 2>/dev/null"
}

extension ValueKind {
  /// The possible words; `nil` if the words are not known in advance.
  var fixedWords: [String]? {
    switch self {
    case .choice(_, let choices): choices
    case .signal: ["TERM", "KILL", "INT", "HUP", "STOP", "CONT", "USR1", "USR2"]
    case .text, .count, .duration, .moment, .topology, .node, .nodeOrInstance, .event, .file,
      .fileOrNode,
      .directory, .endpoint:
      nil
    }
  }

  /// For each shell, the code that completes paths of this kind; `nil` if the value is not a path.
  var pathCompletion: (bash: String, zsh: String, fish: String)? {
    switch self {
    case .file, .fileOrNode: ("compgen -f", "_files", "-F")
    case .directory: ("compgen -d", "_files -/", "-a '(__fish_complete_directories)'")
    case .text, .count, .duration, .moment, .choice, .topology, .node, .nodeOrInstance, .event,
      .endpoint, .signal:
      nil
    }
  }

  /// The kind of words that a completion script requests from `orchestrator` for this kind of
  /// value; `nil` if the script requests none.
  var completionSource: CompletionSource? {
    switch self {
    case .topology: .topologies
    case .node, .nodeOrInstance, .fileOrNode: .nodes
    case .event: .events
    case .text, .count, .duration, .moment, .choice, .file, .directory, .endpoint, .signal:
      nil
    }
  }
}

extension VerbDescription {
  /// The options that have a value, in the form in which a user types them.
  fileprivate var optionsWithValue: [String] {
    allOptions.filter { $0.value != nil }.flatMap(\.spellings)
  }

  /// Patterns for a `case` statement of a shell. They match `VERB:OPTION` if the option has a
  /// value. For options before the verb, the part `VERB` is empty.
  static func valueOptionPatterns(of verbs: [VerbDescription]) -> [String] {
    Option.withValueBeforeVerb.flatMap(\.spellings).map { ":" + $0 }
      + verbs.flatMap { verb in verb.optionsWithValue.map { "\(verb.name):\($0)" } }
  }
}

extension Option {
  /// The forms of the option on a command line, such as `-p` and `--topology`.
  var spellings: [String] { (short.map { ["-\($0)"] } ?? []) + ["--" + long] }
}
