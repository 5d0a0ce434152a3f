struct BashCompletion {
  let verbs: [VerbDescription]

  var script: String {
    """
    # bash completion of orchestrator; install it with:
    #   orchestrator completion bash > ~/.local/share/bash-completion/completions/orchestrator
    _orchestrator() {
      local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
      local verb="" index
      for ((index = 1; index < COMP_CWORD; index++)); do
        case "${COMP_WORDS[index]}" in
          -p|--topology|-o|--output) ((index++)) ;;
          -*) ;;
          *) verb="${COMP_WORDS[index]}"; break ;;
        esac
      done
      COMPREPLY=()
      case "$verb" in
        "")
          COMPREPLY=($(compgen -W "\(firstWords)" -- "$word"))
          ;;
    \(verbs.map(verbCase).joined(separator: "\n"))
      esac
    }
    complete -F _orchestrator orchestrator

    """
  }

  private var firstWords: String {
    (verbs.map(\.name) + ["--help", "--version"]).joined(separator: " ")
  }

  private func verbCase(_ verb: VerbDescription) -> String {
    let valued = verb.allOptions.compactMap { option in
      option.value.map {
        "          \(names(option).joined(separator: "|"))) \(reply($0)); return ;;"
      }
    }
    let words = verb.allOptions.flatMap(names).joined(separator: " ")
    var lines = ["    \(verb.name))"]
    if !valued.isEmpty {
      lines += ["      case \"$before\" in"] + valued + ["      esac"]
    }
    lines += [
      "      if [[ \"$word\" == -* ]]; then",
      "        COMPREPLY=($(compgen -W \"\(words)\" -- \"$word\"))",
    ]
    if let positional = verb.positionals.first {
      // The words of later ones are known beforehand or not offered.
      let more = verb.positionals.dropFirst().compactMap(\.kind.fixedWords).flatMap(\.self)
      lines += ["      else", "        \(reply(positional.kind, more))"]
    }
    return (lines + ["      fi", "      ;;"]).joined(separator: "\n")
  }

  private func names(_ option: Option) -> [String] {
    (option.short.map { ["-\($0)"] } ?? []) + ["--" + option.long]
  }

  private func reply(_ kind: ValueKind, _ more: [String] = []) -> String {
    if let words = kind.fixedWords {
      return #"COMPREPLY=($(compgen -W "\#((words + more).joined(separator: " "))" -- "$word"))"#
    }
    if let command = kind.listingCommand {
      let words = (["$(\(command))"] + more).joined(separator: " ")
      return #"COMPREPLY=($(compgen -W "\#(words)" -- "$word"))"#
    }
    guard let paths = kind.pathCompletion else { return "COMPREPLY=()" }
    return #"COMPREPLY=($(\#(paths.bash) -- "$word"))"#
  }
}
