import PipeRuntime

/// All that is declared about a verb of the orchestrator.
package typealias VerbDescription = CommandDescription

extension CommandDescription {
  /// A verb of the orchestrator.
  package init(
    _ name: String, _ summary: String, discussion: String = "", options: [Option] = [],
    positionals: [Positional] = [], examples: [(String, String)] = []
  ) {
    self.init(
      name, of: "orchestrator", summary, discussion: discussion, options: options,
      universal: Option.universal, positionals: positionals, examples: examples)
  }
}

extension Option {
  package static let output = Option(
    "output", "o", value: .choice("FORMAT", OutputFormat.allCases.map(\.rawValue)),
    "How data is written to stdout. Default: text")
  package static let noDependencies = Option(
    "no-deps", "Of the nodes that are named: these alone, without others")
  static let deployment = Option(
    "deployment", value: .file,
    "Runs it by this deployment file, each node at its place: docs/DEPLOYMENT.md")
  package static let version = Option("version", "V", "Shows the version")
  package static let noColor = Option("no-color", "Writes no colours; NO_COLOR=1 does the same")

  /// Taken by every verb.
  static let universal = [noColor, help]

  /// What completion offers before the verb.
  static let beforeVerb = valuedBeforeVerb + [help, version]
  static let valuedBeforeVerb = target + [output]
}

/// How data is written to stdout.
package enum OutputFormat: String, Hashable, Sendable, CaseIterable {
  case text, json, jsonl
}

extension ParsedArguments {
  package var format: OutputFormat { value(Option.output.long) ?? .text }
}

extension UsageError {
  package var code: ExitCode { .usage }
}

/// A verb: its description and what it does.
package protocol Verb: Sendable {
  var description: VerbDescription { get }
  /// Does it. Data goes to the console's output, diagnostics to its error side.
  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode
}
