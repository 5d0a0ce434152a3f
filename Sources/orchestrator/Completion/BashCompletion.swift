import PipeRuntime

struct BashCompletion {
  let verbs: [VerbDescription]

  var script: String {
    """
    # bash completion of orchestrator; install it with:
    #   orchestrator completion bash > ~/.local/share/bash-completion/completions/orchestrator
    _orchestrator_names() {
      if [[ -n $file ]]; then
        orchestrator describe --file "$file" "$@"
      else
        orchestrator describe ${topology:+--topology "$topology"} "${remote[@]}" "$@" ||
          orchestrator describe --file topology.yaml "$@"
      fi 2>/dev/null
    }
    _orchestrator() {
      local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
      local verb="" topology="" file="" option index
      local -a words=() remote=()
      # A long option's value is a word of its own, behind a word that is the equals sign.
      if [[ $word == = ]]; then
        word=""
      elif [[ $before == = ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
      fi
      for ((index = 1; index < COMP_CWORD; index++)); do
        option="${COMP_WORDS[index]}"
        case "$verb:$option" in
          \(VerbDescription.valueOptionPatterns(of: verbs).joined(separator: "|")))
            ((index++))
            [[ ${COMP_WORDS[index]} == = ]] && ((index++))
            case "$option" in
              -p|--topology) topology="${COMP_WORDS[index]}" ;;
              --file) file="${COMP_WORDS[index]}" ;;
              --key) remote+=(--key "${COMP_WORDS[index]/#\\~/$HOME}") ;;
              --connect)
                # A colon is a word of its own.
                option="${COMP_WORDS[index]}"
                while [[ ${COMP_WORDS[index+1]} == : ]] && ((index + 2 < COMP_CWORD)); do
                  option+=":${COMP_WORDS[index+2]}"
                  ((index += 2))
                done
                remote+=(--connect "$option")
                ;;
            esac
            ;;
          *:-*) ;;
          :*) verb="$option" ;;
          *) words+=("$option") ;;
        esac
      done
      COMPREPLY=()
      case "$verb" in
        "")
    \(replyScript(to: Option.withValueBeforeVerb))
          COMPREPLY=($(compgen -W "\(firstWords)" -- "$word"))
          ;;
    \(verbs.map(caseClause).joined(separator: "\n"))
      esac
    }
    complete -F _orchestrator orchestrator

    """
  }

  private var firstWords: String {
    (verbs.map(\.name) + ["-p", "-o", "--key", "--connect", "--help", "--version"]).joined(
      separator: " ")
  }

  private func caseClause(_ verb: VerbDescription) -> String {
    let words = verb.allOptions.flatMap(\.spellings).joined(separator: " ")
    var lines = [
      "    \(verb.name))", replyScript(to: verb.allOptions),
      "      if [[ \"$word\" == -* ]]; then",
      "        COMPREPLY=($(compgen -W \"\(words)\" -- \"$word\"))",
    ]
    if !verb.positionals.isEmpty {
      lines += ["      else", "        case ${#words[@]} in"]
      for (index, positional) in verb.positionals.enumerated() {
        lines.append(
          "          \(positional.isRepeatable ? "*" : "\(index)")) \(replyScript(positional.kind)) ;;"
        )
      }
      lines.append("        esac")
    }
    return (lines + ["      fi", "      ;;"]).joined(separator: "\n")
  }

  /// Returns a script that completes the value of the preceding option.
  private func replyScript(to options: [Option]) -> String {
    let valueCases = options.compactMap { option in
      option.value.map {
        "        \(option.spellings.joined(separator: "|"))) \(replyScript($0)); return ;;"
      }
    }
    guard !valueCases.isEmpty else { return "      :" }
    return (["      case \"$before\" in"] + valueCases + ["      esac"]).joined(separator: "\n")
  }

  private func replyScript(_ kind: ValueKind) -> String {
    func replyScript(with words: String) -> String {
      #"COMPREPLY=($(compgen -W "\#(words)" -- "$word"))"#
    }
    if let words = kind.fixedWords { return replyScript(with: words.joined(separator: " ")) }
    if kind == .fileOrNode {
      return #"COMPREPLY=($(compgen -W "$(_orchestrator_names --quiet)" -- "$word")"#
        + #" $(compgen -f -- "$word"))"#
    }
    switch kind.completionSource {
    case .topologies: return replyScript(with: "$(\(CompletionSource.listTopologiesCommand))")
    case .nodes: return replyScript(with: "$(_orchestrator_names --quiet)")
    case .events: return replyScript(with: #"$(_orchestrator_names --events "${words[0]}")"#)
    case nil: break
    }
    guard let paths = kind.pathCompletion else { return "COMPREPLY=()" }
    return #"COMPREPLY=($(\#(paths.bash) -- "$word"))"#
  }
}
