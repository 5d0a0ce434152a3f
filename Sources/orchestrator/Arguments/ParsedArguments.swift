import PipeRuntime

/// The values of a verb's command line, checked against its description.
package struct ParsedArguments: Hashable, Sendable {
  package var positionals: [String] = []
  /// By the option's long name; a flag has an empty value per occurrence.
  package var options: [String: [String]] = [:]

  package init() {}

  /// Whether a flag was given.
  package func flag(_ name: String) -> Bool { options[name] != nil }

  /// The last value of an option.
  package func value(_ name: String) -> String? { options[name]?.last }

  /// All values of an option that repeats.
  package func values(_ name: String) -> [String] { options[name] ?? [] }

  /// The value of an option of kind count.
  package func count(_ name: String) -> Int? { value(name).flatMap { Int($0) } }

  /// The value of an option of kind duration.
  package func duration(_ name: String) -> Duration? {
    value(name).flatMap { DurationText.parse($0) }
  }

  /// The value of an option of kind moment.
  package func moment(_ name: String) -> Timestamp? {
    value(name).flatMap { MomentArgument.parse($0) }
  }

  /// The value of an option of kind signal.
  package func signal(_ name: String) -> Signal? { value(name).flatMap { Signal($0) } }

  /// The topology asked for with `-p`.
  package var topology: String? { value("topology") }

  package var format: OutputFormat { value("output").flatMap(OutputFormat.init) ?? .text }
}

/// How data is written to stdout.
package enum OutputFormat: String, Hashable, Sendable, CaseIterable {
  case text, json, jsonl
}
