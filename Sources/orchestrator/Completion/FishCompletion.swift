import PipeRuntime

struct FishCompletion {
  let verbs: [VerbDescription]

  var script: String {
    var lines = [
      """
      # fish completion of orchestrator; install it with:
      #   orchestrator completion fish > ~/.config/fish/completions/orchestrator.fish
      function __orchestrator_look
        set -g __orchestrator_verb
        set -g __orchestrator_words
        set -g __orchestrator_topology
        set -g __orchestrator_file
        set -g __orchestrator_remote
        set -l option
        for token in (commandline -opc)[2..]
          switch "$option"
            case ''
            case -p --topology
              set __orchestrator_topology $token
            case --file
              set __orchestrator_file $token
            case --key --connect
              set -a __orchestrator_remote $option (string replace -r '^~' $HOME $token)
          end
          if test -n "$option"
            set option
            continue
          end
          switch "$__orchestrator_verb:$token"
            case \(VerbDescription.valueOptionPatterns(of: verbs).joined(separator: " "))
              set option $token
            case '*:--topology=*'
              set __orchestrator_topology (string replace -- --topology= '' $token)
            case '*:--file=*'
              set __orchestrator_file (string replace -- --file= '' $token)
            case '*:--key=*' '*:--connect=*'
              set -a __orchestrator_remote $token
            case '*:-*'
            case ':*'
              set __orchestrator_verb $token
            case '*'
              set -a __orchestrator_words $token
          end
        end
      end
      # Whether the command line has this verb, with this number of arguments; or no verb.
      function __orchestrator_at
        __orchestrator_look
        test "$__orchestrator_verb" = "$argv[1]"; or return
        test -z "$argv[2]"; or test (count $__orchestrator_words) = $argv[2]
      end
      function __orchestrator_names
        __orchestrator_look
        test "$argv[1]" = --events; and set -a argv $__orchestrator_words[1]
        if test -n "$__orchestrator_file"
          orchestrator describe --file $__orchestrator_file $argv
        else
          set -l topology
          test -n "$__orchestrator_topology"; and set topology --topology $__orchestrator_topology
          orchestrator describe $topology $__orchestrator_remote $argv; or orchestrator describe --file topology.yaml $argv
        end 2>/dev/null
      end
      complete -c orchestrator -f
      """
    ]
    for option in Option.beforeVerb { lines.append(completeCommand(option, of: "")) }
    for verb in verbs {
      lines.append(
        "complete -c orchestrator -n __orchestrator_at -a \(verb.name) -d \(quoted(verb.summary))")
      for option in verb.allOptions { lines.append(completeCommand(option, of: verb.name)) }
      for (index, positional) in verb.positionals.enumerated() {
        let wordArguments = wordArguments(positional.kind)
        guard !wordArguments.isEmpty else { continue }
        let position = positional.isRepeatable ? "" : " \(index)"
        lines.append("complete -c orchestrator \(condition(verb.name + position))\(wordArguments)")
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private func condition(_ arguments: String) -> String {
    "-n \(quoted("__orchestrator_at \(arguments)"))"
  }

  private func completeCommand(_ option: Option, of verb: String) -> String {
    let short = option.short.map { " -s \($0)" } ?? ""
    // With -x, fish offers only these words. Without -x, it would also offer paths.
    let value = option.value.map { ($0 == .file ? " -r" : " -x") + wordArguments($0) } ?? ""
    return "complete -c orchestrator \(condition(verb))\(short) -l \(option.long)\(value) "
      + "-d \(quoted(option.summary))"
  }

  private func wordArguments(_ kind: ValueKind) -> String {
    if let wordArguments = kind.fixedWords {
      return " -a \(quoted(wordArguments.joined(separator: " ")))"
    }
    if kind == .fileOrNode { return wordArguments(.file) + wordArguments(.node) }
    switch kind.completionSource {
    case .topologies: return " -a \(quoted("(\(CompletionSource.listTopologiesCommand))"))"
    case .nodes: return " -a \(quoted("(__orchestrator_names --quiet)"))"
    case .events: return " -a \(quoted("(__orchestrator_names --events)"))"
    case nil: return kind.pathCompletion.map { " " + $0.fish } ?? ""
    }
  }

  private func quoted(_ text: String) -> String {
    "'" + text.map { "'\\".contains($0) ? "\\\($0)" : "\($0)" }.joined() + "'"
  }
}
