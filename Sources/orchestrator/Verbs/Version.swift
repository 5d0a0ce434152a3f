import PipeRuntime

/// `orchestrator version`, `orchestrator --version`
struct ShowVersion: Verb {
  /// Semantic versioning: the first number changes with the wire or the topology file.
  static let current = "0.1.0"

  let description = VerbDescription(
    "version", "Shows the version", options: [.output],
    examples: [("orchestrator version -o json", "For scripts")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try console.print(
      ["version": .string(Self.current)], as: arguments.format,
      lines: ["orchestrator \(Self.current)"])
    return .success
  }
}
