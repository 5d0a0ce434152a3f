/// All that is declared about a verb: its help, its completion and its parsing come from here.
package struct VerbDescription: Sendable {
  package struct Example: Hashable, Sendable {
    package var command: String
    package var meaning: String
  }

  package var name: String
  /// One line for the list of verbs.
  package var summary: String
  /// More for the verb's own help.
  package var discussion: String
  package var options: [Option]
  package var positionals: [Positional]
  package var examples: [Example]

  /// - Parameter examples: Pairs of a command line and what it does.
  package init(
    _ name: String, _ summary: String, discussion: String = "", options: [Option] = [],
    positionals: [Positional] = [], examples: [(String, String)] = []
  ) {
    self.name = name
    self.summary = summary
    self.discussion = discussion
    self.options = options
    self.positionals = positionals
    self.examples = examples.map { Example(command: $0.0, meaning: $0.1) }
  }

  /// The verb's own options and those of every verb.
  package var allOptions: [Option] { options + Option.universal }

  /// `orchestrator kill [OPTIONS] NODE...`
  package var usage: String {
    (["orchestrator", name, "[OPTIONS]"] + positionals.map(\.usage)).joined(separator: " ")
  }
}

/// A verb: its description and what it does.
package protocol Verb: Sendable {
  var description: VerbDescription { get }
  /// Does it. Data goes to the console's output, diagnostics to its error side.
  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode
}
