import PipeSupport

/// The help pages, made from descriptions.
package struct HelpText {
  /// How headings are written.
  package let heading: @Sendable (String) -> String
  /// The columns that text is wrapped to.
  private let columns: Int

  package init(
    columns: Int = 80, heading: @escaping @Sendable (String) -> String = { $0 }
  ) {
    self.heading = heading
    self.columns = min(max(columns, 40), 100)
  }

  /// The page of one command.
  package func page(_ command: CommandDescription) -> String {
    var parts = ["\(heading("Usage:")) \(command.usage)", wrap(command.summary + ".", indent: 0)]
    if !command.discussion.isEmpty { parts.append(wrap(command.discussion, indent: 0)) }
    if !command.positionals.isEmpty {
      parts.append(section("Arguments:", cards(command.positionals.map { ($0.name, $0.summary) })))
    }
    parts.append(section("Options:", cards(options(command.allOptions))))
    if !command.examples.isEmpty {
      let examples = command.examples.map { "  \($0.command)\n      \($0.meaning)" }
      parts.append(section("Examples:", examples.joined(separator: "\n")))
    }
    return parts.joined(separator: "\n\n") + "\n"
  }

  package func section(_ title: String, _ body: String) -> String {
    heading(title) + "\n" + body
  }

  package func options(_ options: [Option]) -> [(String, String)] {
    options.map { option in
      let short = option.short.map { "-\($0), " } ?? "    "
      let value = option.value.map { " " + $0.placeholder } ?? ""
      return (short + "--" + option.long + value, option.summary)
    }
  }

  /// Terms in a column, their meanings wrapped beside them.
  package func cards(_ cards: [(term: String, meaning: String)]) -> String {
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
