import PipeRuntime

/// The declaration of an orchestrator verb.
package typealias VerbDescription = CommandDescription

extension CommandDescription {
  /// Creates the description of an orchestrator verb.
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
    "Output format: text, json or jsonl. Default: text")
  package static let noDependencies = Option(
    "no-deps", "Applies only to the named nodes, not to their dependencies or dependents")
  static let deployment = Option(
    "deployment", value: .file,
    "Runs each node at its place in this deployment file (see docs/DEPLOYMENT.md)")
  static let logFormat = Option(
    "log-format", value: .choice("FORMAT", LogFormat.allCases.map(\.rawValue)),
    "Writes lines in this format; a line of JSON has time, level, node, incarnation, message and "
      + "more. Default: text")
  package static let version = Option("version", "V", "Shows the version")
  package static let noColor = Option("no-color", "Disables colours; NO_COLOR=1 does the same")

  /// The options that every verb accepts.
  static let universal = [noColor, help]

  /// The options that the completion offers before a verb is typed.
  static let beforeVerb = withValueBeforeVerb + [help, version]
  static let withValueBeforeVerb = targetOptions + [output]
}

/// The format of the data on stdout.
package enum OutputFormat: String, Hashable, Sendable, CaseIterable {
  case text, json, jsonl
}

extension ParsedArguments {
  package var format: OutputFormat { value(Option.output.long) ?? .text }
  /// The format of the log lines that a run prints; `nil` if the command line names no format.
  var logFormat: LogFormat? { value(Option.logFormat.long) }
}

extension UsageError {
  package var code: ExitCode { .usage }
}

/// A verb: its description and its implementation.
package protocol Verb: Sendable {
  var description: VerbDescription { get }
  /// Runs the verb. Data is written to stdout, and diagnostics are written to stderr.
  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode
}

/// A verb with its arguments, ready to run.
package struct Invocation: Sendable {
  package var verb: any Verb
  package var arguments: ParsedArguments

  package func run(console: Console) async throws -> ExitCode {
    try await verb.run(arguments, console: console)
  }
}

/// Finds the verb in a command line, and parses the other arguments according to the verb's
/// description. Options can also be placed before the verb.
package struct ArgumentParser {
  let verbs: [any Verb]

  package init(verbs: [any Verb]) { self.verbs = verbs }

  package func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
    guard let position = verbPosition(in: arguments) else {
      return try parseWithoutVerb(arguments)
    }
    let name = arguments[position]
    guard let verb = verb(named: name) else {
      throw Help.unknownVerbError(name, among: verbs.map(\.description.name))
    }
    var rest = arguments
    rest.remove(at: position)
    var parsed = try verb.description.parse(rest[...])
    guard parsed.contains(option: "help") else { return Invocation(verb: verb, arguments: parsed) }
    parsed.positionals = [name]
    return Invocation(verb: Help(), arguments: parsed)
  }

  private func verb(named name: String) -> (any Verb)? {
    let name = Verbs.formerNames[name] ?? name
    return verbs.first { $0.description.name == name }
  }

  /// Returns the index of the first argument that is neither an option nor an option's value.
  private func verbPosition(in arguments: [String]) -> Int? {
    let optionsTakingValues = Option.withValueBeforeVerb.flatMap { option in
      ["--" + option.long] + (option.short.map { ["-\($0)"] } ?? [])
    }
    var index = 0
    while index < arguments.count {
      if !arguments[index].hasPrefix("-") { return index }
      index += optionsTakingValues.contains(arguments[index]) ? 2 : 1
    }
    return nil
  }

  private func parseWithoutVerb(_ arguments: [String]) throws(UsageError) -> Invocation {
    let description = VerbDescription("", "", options: [.topology, .output, .version])
    let parsed = try description.read(arguments[...])
    let name =
      parsed.contains(option: "version") ? "version" : parsed.contains(option: "help") ? "help" : ""
    guard let verb = verb(named: name) else { throw .missingVerb(of: description.program) }
    return Invocation(verb: verb, arguments: parsed)
  }
}

/// The arguments `[FILE] [NODE...]`. The first argument is the file if it looks like a path, or if
/// a file exists at this path.
package struct FileAndNodes: Hashable {
  package let file: String
  package let nodes: [String]
  /// Whether the command line contains the file. Otherwise, `file` is the default.
  package let isFileGiven: Bool

  /// - Parameter isFile: Returns whether there is a file at a path.
  package init(
    _ arguments: [String],
    isFile: (String) -> Bool = { FileSystem.exists($0) && !FileSystem.isDirectory($0) }
  ) throws(UsageError) {
    var nodes = arguments[...]
    if let first = nodes.first, Self.looksLikeFile(first) || isFile(first) {
      file = first
      isFileGiven = true
      nodes = nodes.dropFirst()
    } else {
      file = "topology.yaml"
      isFileGiven = false
    }
    for node in nodes {
      guard let wanted = ValueKind.node.problem(with: node) else { continue }
      throw .invalidValue(for: "NODE", value: node, expected: wanted)
    }
    self.nodes = Array(nodes)
  }

  private static func looksLikeFile(_ argument: String) -> Bool {
    argument.contains("/") || [".yaml", ".yml", ".json"].contains { argument.hasSuffix($0) }
  }
}
