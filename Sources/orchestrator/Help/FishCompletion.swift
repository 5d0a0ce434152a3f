struct FishCompletion {
  let verbs: [VerbDescription]

  var script: String {
    var lines = [
      "# fish completion of orchestrator; install it with:",
      "#   orchestrator completion fish > ~/.config/fish/completions/orchestrator.fish",
      "complete -c orchestrator -f",
    ]
    for verb in verbs {
      lines.append(
        "complete -c orchestrator -n __fish_use_subcommand -a \(verb.name) -d \(quoted(verb.summary))"
      )
      let condition = "-n \(quoted("__fish_seen_subcommand_from \(verb.name)"))"
      for option in verb.allOptions {
        let short = option.short.map { " -s \($0)" } ?? ""
        let value = option.value.map { " -r" + words($0) } ?? ""
        lines.append(
          "complete -c orchestrator \(condition)\(short) -l \(option.long)\(value) "
            + "-d \(quoted(option.summary))")
      }
      for positional in verb.positionals {
        let words = words(positional.kind)
        guard !words.isEmpty else { continue }
        lines.append("complete -c orchestrator \(condition)\(words)")
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private func words(_ kind: ValueKind) -> String {
    if let words = kind.fixedWords { return " -a \(quoted(words.joined(separator: " ")))" }
    if let command = kind.listingCommand { return " -a \(quoted("(\(command))"))" }
    return kind.pathCompletion.map { " " + $0.fish } ?? ""
  }

  private func quoted(_ text: String) -> String {
    "'" + text.map { "'\\".contains($0) ? "\\\($0)" : "\($0)" }.joined() + "'"
  }
}
