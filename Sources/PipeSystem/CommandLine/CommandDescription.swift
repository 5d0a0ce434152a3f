import Glibc
import PipeSupport

/// The declaration of a program or of one of its verbs: the source of its help, its shell completion
/// and its argument parser.
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
  /// More text for the help page of the command.
  package var discussion: String
  /// The options of this command, without the universal options.
  package var options: [Option]
  package var positionals: [Positional]
  package var examples: [Example]
  /// The options of this command, the options that they imply, and the universal options of the program.
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
    // Every command for a running topology also works for a topology on another host.
    allOptions =
      options.flatMap { $0 == .topology ? Option.target : [$0] } + universal
  }

  /// The command, as a user types it: `orchestrator kill`.
  package var command: String { name.isEmpty ? program : "\(program) \(name)" }

  /// The usage line: `orchestrator kill [OPTIONS] NODE...`.
  package var usage: String {
    ([command, "[OPTIONS]"] + positionals.map(\.usage)).joined(separator: " ")
  }
}

/// The help pages, generated from descriptions.
package struct HelpText {
  /// Formats a heading.
  package let heading: @Sendable (String) -> String
  /// The width to which text is wrapped. Unit: columns.
  private let columns: Int

  package init(
    columns: Int = 80, heading: @escaping @Sendable (String) -> String = { $0 }
  ) {
    self.heading = heading
    self.columns = min(max(columns, 40), 100)
  }

  /// Returns the help page of one command.
  package func page(_ command: CommandDescription) -> String {
    var parts = ["\(heading("Usage:")) \(command.usage)", wrap(command.summary + ".", indent: 0)]
    if !command.discussion.isEmpty { parts.append(wrap(command.discussion, indent: 0)) }
    if !command.positionals.isEmpty {
      parts.append(
        section("Arguments:", definitionList(command.positionals.map { ($0.name, $0.summary) })))
    }
    parts.append(section("Options:", definitionList(options(command.allOptions))))
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

  /// Formats terms in a column, with their meanings wrapped beside them.
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

/// An invalid command line. The label `of` is the command whose help page has more information.
package enum UsageError: Error, Hashable {
  case missingVerb(of: String)
  case unknownVerb(String, suggestion: String?, of: String)
  case unknownOption(String, suggestion: String?, of: String)
  case missingValue(option: String, placeholder: String)
  case unexpectedValue(option: String, value: String)
  case invalidValue(of: String, value: String, wanted: String)
  case missingOption(String, of: String)
  case missingPositional(String, of: String)
  case extraPositional(String, of: String)
}

extension UsageError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .missingVerb(let command): "missing verb\n\(Self.advice(command))"
    case .unknownVerb(let verb, let suggestion, let command):
      "unknown verb '\(verb)'\(Suggestion.hint(suggestion))\n\(Self.advice(command))"
    case .unknownOption(let option, let suggestion, let command):
      "unknown option '\(option)'\(Suggestion.hint(suggestion))\n\(Self.advice(command))"
    case .missingValue(let option, let placeholder):
      "option '\(option)' requires a value: \(option) \(placeholder)"
    case .unexpectedValue(let option, let value):
      "option '\(option)' takes no value, but was given '\(value)'"
    case .invalidValue(let name, let value, let wanted):
      "invalid value '\(value)' for \(name): \(wanted)"
    case .missingOption(let name, let command):
      "option '\(name)' is missing\n\(Self.advice(command))"
    case .missingPositional(let name, let command):
      "\(name) is missing\n\(Self.advice(command))"
    case .extraPositional(let value, let command):
      "unexpected argument '\(value)'\n\(Self.advice(command))"
    }
  }

  private static func advice(_ command: String) -> String { "Try '\(command) --help'." }

  /// Writes the error to standard error and exits with code 2.
  package func exit(of program: String) -> Never {
    StandardError.write("\(program): error: \(self)\n")
    Glibc.exit(2)
  }
}
