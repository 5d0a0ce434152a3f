import PipeRuntime

/// `orchestrator completion`
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

/// Words that only the command itself can list, at completion time.
enum CompletionSource {
  case topologies
  /// The nodes of the topology that the command line names, or else of its file.
  case nodes
  /// The events of the node typed before, in the same topology.
  case events

  /// The shell command that lists the topologies.
  static let listTopologiesCommand = "orchestrator ls --quiet 2>/dev/null"
}

extension ValueKind {
  /// The possible words, if they are known beforehand.
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

  /// The way in which each shell completes paths of this kind; `nil` if the value is not a path.
  var pathCompletion: (bash: String, zsh: String, fish: String)? {
    switch self {
    case .file, .fileOrNode: ("compgen -f", "_files", "-F")
    case .directory: ("compgen -d", "_files -/", "-a '(__fish_complete_directories)'")
    case .text, .count, .duration, .moment, .choice, .topology, .node, .nodeOrInstance, .event,
      .endpoint, .signal:
      nil
    }
  }

  /// The words that the command lists at completion time for this kind of value.
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
  /// The options that take a value, as typed on a command line.
  fileprivate var optionsWithValue: [String] {
    allOptions.filter { $0.value != nil }.flatMap(\.names)
  }

  /// Patterns of a shell's `case` for `VERB:OPTION`, one for each option that takes a value.
  /// Options that come before the verb have a pattern with a colon and no verb.
  static func valueOptionPatterns(of verbs: [VerbDescription]) -> [String] {
    Option.withValueBeforeVerb.flatMap(\.names).map { ":" + $0 }
      + verbs.flatMap { verb in verb.optionsWithValue.map { "\(verb.name):\($0)" } }
  }
}

extension Option {
  /// `-p` and `--topology`
  var names: [String] { (short.map { ["-\($0)"] } ?? []) + ["--" + long] }
}
