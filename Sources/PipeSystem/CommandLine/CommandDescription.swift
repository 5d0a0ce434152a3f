import Glibc
import PipeSupport

/// The declaration of a command line: of a program without verbs, or of one verb. The help, the
/// shell completion and the argument parser are derived from the declaration.
package struct CommandDescription: Sendable {
  package struct Example: Hashable, Sendable {
    package var command: String
    package var meaning: String
  }

  /// The name by which the program is called.
  package var program: String
  /// The verb; empty for a program without verbs.
  package var name: String
  /// A one-line summary for the list of verbs.
  package var summary: String
  /// Additional text for the help page of the command.
  package var discussion: String
  /// The options of this command, without the universal options.
  package var options: [Option]
  package var positionals: [Positional]
  package var examples: [Example]
  /// All options of this command: its own options, with `--topology` expanded to
  /// ``Option/targetOptions``, and the universal options of the program.
  package var allOptions: [Option]

  /// - Parameters:
  ///   - universal: The options that all verbs of the program have.
  ///   - examples: Pairs of a command line and its meaning.
  package init(
    _ name: String = "", of program: String, _ summary: String, discussion: String = "",
    options: [Option] = [], universal: [Option] = [.help], positionals: [Positional] = [],
    examples: [(String, String)] = []
  ) {
    self.program = program
    self.name = name
    self.summary = summary
    self.discussion = discussion
    self.options = options
    self.positionals = positionals
    self.examples = examples.map { Example(command: $0.0, meaning: $0.1) }
    // A command that works on a running topology also works on a topology on another host, so the
    // command also accepts `--key` and `--connect`.
    allOptions =
      options.flatMap { $0 == .topology ? Option.targetOptions : [$0] } + universal
  }

  /// The command as a user types it, such as `orchestrator kill`.
  package var command: String { name.isEmpty ? program : "\(program) \(name)" }

  /// The usage line, such as `orchestrator kill [OPTIONS] NODE...`.
  package var usage: String {
    ([command, "[OPTIONS]"] + positionals.map(\.usage)).joined(separator: " ")
  }
}

/// Formats the help pages of a program's commands.
package struct HelpText {
  /// Adds the style of a heading, such as bold, to a text.
  package let styleHeading: @Sendable (String) -> String
  /// The width to which text is wrapped. Unit: columns.
  private let columns: Int

  package init(
    columns: Int = 80, heading: @escaping @Sendable (String) -> String = { $0 }
  ) {
    self.styleHeading = heading
    self.columns = min(max(columns, 40), 100)
  }

  /// Returns the help page of one command.
  package func helpPage(_ command: CommandDescription) -> String {
    var parts = [
      "\(styleHeading("Usage:")) \(command.usage)", wrap(command.summary + ".", indent: 0),
    ]
    if !command.discussion.isEmpty { parts.append(wrap(command.discussion, indent: 0)) }
    if !command.positionals.isEmpty {
      parts.append(
        section("Arguments:", definitionList(command.positionals.map { ($0.name, $0.summary) })))
    }
    parts.append(section("Options:", definitionList(optionRows(command.allOptions))))
    if !command.examples.isEmpty {
      let examples = command.examples.map { "  \($0.command)\n      \($0.meaning)" }
      parts.append(section("Examples:", examples.joined(separator: "\n")))
    }
    return parts.joined(separator: "\n\n") + "\n"
  }

  package func section(_ title: String, _ body: String) -> String {
    styleHeading(title) + "\n" + body
  }

  package func optionRows(_ options: [Option]) -> [(String, String)] {
    options.map { option in
      let short = option.short.map { "-\($0), " } ?? "    "
      let value = option.value.map { " " + $0.placeholder } ?? ""
      return (short + "--" + option.long + value, option.summary)
    }
  }

  /// Formats terms in a left column and their meanings in a right column. Wraps the meanings to the
  /// width of the help page.
  package func definitionList(_ definitionList: [(term: String, meaning: String)]) -> String {
    let width = min(definitionList.map(\.term.count).max() ?? 0, 30)
    return definitionList.map { term, meaning in
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

/// An error in a command line. The associated value `of` is the command whose help page the message
/// recommends. The associated value `for` is the name of the option or positional.
package enum UsageError: Error, Hashable {
  case missingVerb(of: String)
  case unknownVerb(String, suggestion: String?, of: String)
  case unknownOption(String, suggestion: String?, of: String)
  case missingValue(option: String, placeholder: String)
  case unexpectedValue(option: String, value: String)
  case invalidValue(for: String, value: String, expected: String)
  case missingOption(String, of: String)
  case missingPositional(String, of: String)
  case extraPositional(String, of: String)
  /// Two options, or an option and a positional, that exclude each other.
  case conflict(String, String)
}

extension UsageError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .missingVerb(let command): "missing verb\n\(Self.helpAdvice(command))"
    case .unknownVerb(let verb, let suggestion, let command):
      "unknown verb '\(verb)'\(Suggestion.hint(suggestion))\n\(Self.helpAdvice(command))"
    case .unknownOption(let option, let suggestion, let command):
      "unknown option '\(option)'\(Suggestion.hint(suggestion))\n\(Self.helpAdvice(command))"
    case .missingValue(let option, let placeholder):
      "option '\(option)' requires a value: \(option) \(placeholder)"
    case .unexpectedValue(let option, let value):
      "option '\(option)' takes no value, but was given '\(value)'"
    case .invalidValue(let name, let value, let wanted):
      "invalid value '\(value)' for \(name): \(wanted)"
    case .missingOption(let name, let command):
      "option '\(name)' is missing\n\(Self.helpAdvice(command))"
    case .missingPositional(let name, let command):
      "\(name) is missing\n\(Self.helpAdvice(command))"
    case .extraPositional(let value, let command):
      "unexpected argument '\(value)'\n\(Self.helpAdvice(command))"
    case .conflict(let one, let other): "\(one) and \(other) cannot be used together"
    }
  }

  private static func helpAdvice(_ command: String) -> String { "Try '\(command) --help'." }

  /// Writes the error to standard error and exits with code 2.
  package func exit(of program: String) -> Never {
    StandardError.write("\(program): error: \(self)\n")
    Glibc.exit(2)
  }
}
