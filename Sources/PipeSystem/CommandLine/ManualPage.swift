/// Formats the help of a program as a manual page for man(1), with the macros of man(7).
package struct ManualPage {
  private let program: String
  private var text = ""

  package init(of program: String) { self.program = program }

  /// Returns the page of a program with verbs.
  /// - Parameters:
  ///   - exitCodes: Each exit code with its meaning.
  ///   - related: The names of related pages, such as `inspector`.
  package func page(
    _ summary: String, verbs: [CommandDescription], exitCodes: [(code: String, meaning: String)],
    related: [String]
  ) -> String {
    var page = self
    page.line(
      ".TH \(program.uppercased()) 1 \(Release.date) \"PipeRuntime \(Release.version)\" \"User Commands\""
    )
    page.section("NAME")
    page.line(Self.escaped("\(program) ") + "\\- " + Self.escaped(summary))
    page.section("SYNOPSIS")
    page.line(".B " + Self.escaped(program))
    page.line("VERB [OPTIONS] [ARGUMENTS]")
    page.section("VERBS")
    page.line("\\fB\(Self.escaped(program)) help \\fIVERB\\fR shows the same text for one verb.")
    for verb in verbs { page.add(verb) }
    page.section("EXIT STATUS")
    page.definitions(exitCodes.map { ($0.code, $0.meaning) })
    page.section("SEE ALSO")
    page.line(
      related.map { "\\fB\(Self.escaped($0))\\fR(1)" }.joined(separator: ",\n"))
    return page.text
  }

  private mutating func add(_ verb: CommandDescription) {
    line(".SS " + Self.escaped(verb.usage))
    line(Self.escaped(verb.summary + "."))
    if !verb.discussion.isEmpty {
      line(".PP")
      line(Self.escaped(verb.discussion))
    }
    definitions(verb.positionals.map { ($0.name, $0.summary) })
    definitions(
      verb.allOptions.map { option in
        let names = (option.short.map { ["-\($0)"] } ?? []) + ["--" + option.long]
        return (
          names.joined(separator: ", ") + (option.value.map { " " + $0.placeholder } ?? ""),
          option.summary
        )
      })
    guard !verb.examples.isEmpty else { return }
    line(".PP")
    line("Examples:")
    definitions(verb.examples.map { ($0.command, $0.meaning) })
  }

  private mutating func section(_ name: String) { line(".SH " + name) }

  private mutating func definitions(_ definitions: [(term: String, meaning: String)]) {
    for (term, meaning) in definitions {
      line(".TP")
      line("\\fB" + Self.escaped(term) + "\\fR")
      line(Self.escaped(meaning))
    }
  }

  private mutating func line(_ line: String) { text += line + "\n" }

  /// Escapes the characters that have a special meaning in roff.
  private static func escaped(_ text: String) -> String {
    let escaped = text.replacing("\\", with: "\\e").replacing("-", with: "\\-")
      .replacing("'", with: "\\(aq").replacing("`", with: "\\(ga").replacing("^", with: "\\(ha")
      .replacing("~", with: "\\(ti").replacing("\"", with: "\\(dq")
    return escaped.hasPrefix(".") ? "\\&" + escaped : escaped
  }
}

/// The version of this package.
package enum Release {
  /// The version, according to semantic versioning. A change of the wire protocol or of the format
  /// of topology files changes the major number.
  package static let version = "0.3.0"
  /// The date of the version, as in CHANGELOG.md.
  package static let date = "2026-11-27"
}
