/// All that is declared about a program, or about a verb of one: its help, its completion and the reading
/// of its arguments come from here.
package struct CommandDescription: Sendable {
  package struct Example: Hashable, Sendable {
    package var command: String
    package var meaning: String
  }

  /// How its program is called.
  package var program: String
  /// The verb; empty for a program that has none.
  package var name: String
  /// One line for the list of verbs.
  package var summary: String
  /// More for its own help.
  package var discussion: String
  /// Its own options.
  package var options: [Option]
  package var positionals: [Positional]
  package var examples: [Example]
  /// Its own options, with those that go with them, and those of every verb of the program.
  package var allOptions: [Option]

  /// - Parameters:
  ///   - universal: The options that every verb of the program has.
  ///   - examples: Pairs of a command line and what it does.
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
    // Whatever works on a running topology works on one of another host.
    allOptions =
      options.flatMap { $0 == .topology ? Option.target : [$0] } + universal
  }

  /// `orchestrator kill`
  package var command: String { name.isEmpty ? program : "\(program) \(name)" }

  /// `orchestrator kill [OPTIONS] NODE...`
  package var usage: String {
    ([command, "[OPTIONS]"] + positionals.map(\.usage)).joined(separator: " ")
  }
}
