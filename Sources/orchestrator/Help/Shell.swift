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

extension ValueKind {
  /// The words that can stand here, where they are known beforehand.
  var fixedWords: [String]? {
    switch self {
    case .choice(_, let choices): choices
    case .signal: ["TERM", "KILL", "INT", "HUP", "STOP", "CONT", "USR1", "USR2"]
    case .text, .count, .duration, .topology, .node, .file, .directory: nil
    }
  }

  /// What each shell completes the paths with that can stand here.
  var pathCompletion: (bash: String, zsh: String, fish: String)? {
    switch self {
    case .file: ("compgen -f", "_files", "-F")
    case .directory: ("compgen -d", "_files -/", "-a '(__fish_complete_directories)'")
    case .text, .count, .duration, .choice, .topology, .node, .signal: nil
    }
  }

  /// The command that lists the words that can stand here now.
  var listingCommand: String? {
    switch self {
    case .topology: "orchestrator ls --quiet 2>/dev/null"
    case .node: "orchestrator ps --quiet 2>/dev/null"
    case .text, .count, .duration, .choice, .file, .directory, .signal: nil
    }
  }
}
