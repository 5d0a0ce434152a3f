struct ZshCompletion {
  let verbs: [VerbDescription]

  var script: String {
    """
    #compdef orchestrator
    # zsh completion of orchestrator; install it as _orchestrator in a directory of $fpath.
    _orchestrator() {
      local context state line
      typeset -A opt_args
      _arguments -C '1: :->verb' '*:: :->arguments'
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
    \(verbs.map(verbCase).joined(separator: "\n"))
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

  private func verbCase(_ verb: VerbDescription) -> String {
    let options = verb.allOptions.flatMap(specifications)
    let positionals = verb.positionals.enumerated().map { index, positional in
      let place = positional.arity == .any || positional.arity == .some ? "*" : "\(index + 1)"
      return quoted("\(place):\(positional.name):\(action(positional.kind))")
    }
    let lines = (options + positionals).map { "              \($0)" }.joined(separator: " \\\n")
    return "        \(verb.name))\n          _arguments \\\n\(lines)\n          ;;"
  }

  private func specifications(_ option: Option) -> [String] {
    let summary = option.summary
      .map { "[]:".contains($0) ? "\\\($0)" : "\($0)" }.joined()
    let value = option.value.map { ":\($0.placeholder):\(action($0))" } ?? ""
    let repeats = option.repeats ? "*" : ""
    let long = "\(repeats)--\(option.long)\(option.value == nil ? "" : "=")"
    let short = option.short.map { ["\(repeats)-\($0)\(option.value == nil ? "" : "+")"] } ?? []
    return (short + [long]).map { quoted("\($0)[\(summary)]\(value)") }
  }

  private func action(_ kind: ValueKind) -> String {
    if let words = kind.fixedWords { return "(\(words.joined(separator: " ")))" }
    if let command = kind.listingCommand { return "($(\(command)))" }
    return kind.pathCompletion?.zsh ?? " "
  }

  private func quoted(_ text: String) -> String {
    // The listing commands run when the completion is asked for, so they stand in double quotes.
    let isDynamic = text.contains("$(")
    guard !isDynamic else { return "\"\(text)\"" }
    return "'"
      + text.split(separator: "'", omittingEmptySubsequences: false)
      .joined(separator: "'\\''") + "'"
  }
}
