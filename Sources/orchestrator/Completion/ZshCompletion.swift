import PipeRuntime

struct ZshCompletion {
  let verbs: [VerbDescription]

  var script: String {
    """
    #compdef orchestrator
    # zsh completion of orchestrator; install it as _orchestrator in a directory of $fpath.
    _orchestrator_names() {
      local verb topology file word index
      local -a arguments names remote
      for ((index = 2; index < position; index++)); do
        word=$line_words[index]
        case "$verb:$word" in
          (\(VerbDescription.valueOptionPatterns(of: verbs).joined(separator: "|")))
            ((index++))
            case $word in
              (-p|--topology) topology=$line_words[index] ;;
              (--file) file=$line_words[index] ;;
              (--key) remote+=(--key ${line_words[index]/#\\~/$HOME}) ;;
              (--connect) remote+=(--connect $line_words[index]) ;;
            esac
            ;;
          (*:--topology=*) topology=${word#*=} ;;
          (*:--file=*) file=${word#*=} ;;
          (*:--key=*|*:--connect=*) remote+=("$word") ;;
          (*:-*) ;;
          (:*) verb=$word ;;
          (*) arguments+=("$word") ;;
        esac
      done
      [[ $1 == --events ]] && 2=$arguments[1]
      if [[ -n $file ]]; then
        names=("${(@f)$(orchestrator describe --file "$file" "$@" 2>/dev/null)}")
      else
        names=("${(@f)$(orchestrator describe ${topology:+--topology=$topology} $remote "$@" 2>/dev/null ||
          orchestrator describe --file topology.yaml "$@" 2>/dev/null)}")
      fi
      compadd -a names
    }
    _orchestrator() {
      local context state line position=$CURRENT
      local -a line_words=("${words[@]}")
      typeset -A opt_args
      _arguments -C -A '-*' \\
    \(topLevelOptions) \\
        '1: :->verb' '*:: :->arguments'
      case $state in
        verb)
          local -a verbs
          verbs=(
    \(verbs.map { "        " + quoted("\($0.name):\($0.summary)") }.joined(separator: "\n"))
          )
          _describe 'verb' verbs
          ;;
        arguments)
          case $line[1] in
    \(verbs.map(caseClause).joined(separator: "\n"))
          esac
          ;;
      esac
    }
    if [ "$funcstack[1]" = "_orchestrator" ]; then
      _orchestrator "$@"
    else
      compdef _orchestrator orchestrator
    fi

    """
  }

  private var topLevelOptions: String {
    Option.beforeVerb.flatMap(specifications).map { "    \($0)" }
      .joined(separator: " \\\n")
  }

  private func caseClause(_ verb: VerbDescription) -> String {
    let options = verb.allOptions.flatMap(specifications)
    let positionals = verb.positionals.enumerated().map { index, positional in
      let argumentIndex = positional.isRepeatable ? "*" : "\(index + 1)"
      return quoted("\(argumentIndex):\(positional.name):\(action(positional.kind))")
    }
    let lines = (options + positionals).map { "              \($0)" }.joined(separator: " \\\n")
    return "        \(verb.name))\n          _arguments \\\n\(lines)\n          ;;"
  }

  private func specifications(_ option: Option) -> [String] {
    let summary = option.summary
      .map { "[]:".contains($0) ? "\\\($0)" : "\($0)" }.joined()
    let value = option.value.map { ":\($0.placeholder):\(action($0))" } ?? ""
    let repeats = option.isRepeatable ? "*" : ""
    let long = "\(repeats)--\(option.long)\(option.value == nil ? "" : "=")"
    let short = option.short.map { ["\(repeats)-\($0)\(option.value == nil ? "" : "+")"] } ?? []
    return (short + [long]).map { quoted("\($0)[\(summary)]\(value)") }
  }

  private func action(_ kind: ValueKind) -> String {
    if let words = kind.fixedWords { return "(\(words.joined(separator: " ")))" }
    if kind == .fileOrNode { return "{_orchestrator_names --quiet; _files}" }
    switch kind.completionSource {
    case .topologies: return "($(\(CompletionSource.listTopologiesCommand)))"
    // Because of the leading space, zsh calls the function without extra arguments.
    case .nodes: return " _orchestrator_names --quiet"
    case .events: return " _orchestrator_names --events"
    case nil: return kind.pathCompletion?.zsh ?? " "
    }
  }

  private func quoted(_ text: String) -> String {
    // Text that contains a command, `$(…)`, is in double quotes. So the shell runs the command only
    // when the user requests completion.
    let isDynamic = text.contains("$(")
    guard !isDynamic else { return "\"\(text)\"" }
    return "'"
      + text.split(separator: "'", omittingEmptySubsequences: false)
      .joined(separator: "'\\''") + "'"
  }
}
