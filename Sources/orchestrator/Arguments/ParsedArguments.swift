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
    value(name).flatMap { DurationArgument.parse($0) }
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

/// Durations as typed.
package enum DurationArgument {
  /// Reads `200ms`, `1.5s`, `2m`, `1h` or `1d`; `nil` where the text is none.
  package static func parse(_ text: String) -> Duration? {
    let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    guard let number = Double(digits), number.isFinite else { return nil }
    let unit: Double? =
      switch text.dropFirst(digits.count) {
      case "ms": 0.001
      case "s": 1
      case "m", "min": 60
      case "h": 3600
      case "d": 86400
      default: nil
      }
    guard let unit, number * unit < 1e9 else { return nil }
    return .milliseconds(Int64((number * unit * 1000).rounded()))
  }
}
