import PipeRuntime

/// The help pages, made from the verbs' descriptions.
package struct HelpText {
  let style: Style
  /// The columns that text is wrapped to.
  let columns: Int

  package init(style: Style = Style(isColored: false), columns: Int = 80) {
    self.style = style
    self.columns = min(max(columns, 40), 100)
  }

  /// The page of `orchestrator --help`.
  package func overview(_ verbs: [VerbDescription]) -> String {
    """
    \(style.bold("Usage:")) orchestrator VERB [OPTIONS] [ARGUMENTS]

    Runs topologies of state machines: a process per node, a ZeroMQ socket pair per pipe.

    \(style.bold("Verbs:"))
    \(cards(verbs.map { ($0.name, $0.summary) }))

    \(style.bold("Options of most verbs:"))
    \(cards(options([.topology, .output] + Option.universal)))

    \(style.bold("Exit codes:"))
    \(cards(Self.exitCodes))

    'orchestrator help VERB' tells more about one verb.

    """
  }

  /// The page of one verb.
  package func page(_ verb: VerbDescription) -> String {
    var parts = ["\(style.bold("Usage:")) \(verb.usage)", wrap(verb.summary + ".", indent: 0)]
    if !verb.discussion.isEmpty { parts.append(wrap(verb.discussion, indent: 0)) }
    if !verb.positionals.isEmpty {
      parts.append(section("Arguments:", cards(verb.positionals.map { ($0.name, $0.summary) })))
    }
    parts.append(section("Options:", cards(options(verb.allOptions))))
    if !verb.examples.isEmpty {
      let examples = verb.examples.map { "  \($0.command)\n      \($0.meaning)" }
      parts.append(section("Examples:", examples.joined(separator: "\n")))
    }
    return parts.joined(separator: "\n\n") + "\n"
  }

  private static let exitCodes = [
    ("0", "success, or a graceful stop"),
    ("1", "the run failed, or an event was refused"),
    ("2", "usage, or an invalid topology"),
    ("3", "no such running topology"),
    ("4", "'why': the event is withheld"),
    ("5", "'why': whether it is enabled depends on the event's values"),
    ("124", "a wait timed out"),
    ("130", "second ^C, forced"),
  ]

  private func section(_ heading: String, _ body: String) -> String {
    style.bold(heading) + "\n" + body
  }

  private func options(_ options: [Option]) -> [(String, String)] {
    options.map { option in
      let short = option.short.map { "-\($0), " } ?? "    "
      let value = option.value.map { " " + $0.placeholder } ?? ""
      return (short + "--" + option.long + value, option.summary)
    }
  }

  /// Terms in a column, their meanings wrapped beside them.
  private func cards(_ cards: [(term: String, meaning: String)]) -> String {
    let width = min(cards.map(\.term.count).max() ?? 0, 30)
    return cards.map { term, meaning in
      let text = wrap(meaning, indent: width + 4).drop { $0 == " " }
      let gap = String(repeating: " ", count: width + 4)
      return term.count > width
        ? "  \(term)\n\(gap)\(text)" : "  \(term.padded(to: width))  \(text)"
    }.joined(separator: "\n")
  }

  private func wrap(_ text: String, indent: Int) -> String {
    let margin = String(repeating: " ", count: indent)
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
      if !line.isEmpty, indent + line.count + 1 + word.count > columns {
        lines.append(margin + line)
        line = ""
      }
      line += line.isEmpty ? String(word) : " " + word
    }
    lines.append(margin + line)
    return lines.joined(separator: "\n")
  }
}
