import PipeSupport

/// The values of a command line, checked against its description.
package struct ParsedArguments: Hashable, Sendable {
  /// An option that was given.
  package struct Given: Hashable, Sendable {
    /// Its long name.
    package var name: String
    /// Empty for a flag.
    package var value: String
  }

  package var positionals: [String] = []
  /// In the order in which they were given.
  package var options: [Given] = []

  package init() {}

  /// Whether a flag, or any value of an option, was given.
  package func flag(_ name: String) -> Bool { options.contains { $0.name == name } }

  /// The last value of an option.
  package func value(_ name: String) -> String? { options.last { $0.name == name }?.value }

  /// The last value of an option, read from its text.
  package func value<Value: RawRepresentable>(
    _ name: String, as type: Value.Type = Value.self
  ) -> Value? where Value.RawValue == String {
    value(name).flatMap { Value(rawValue: $0) }
  }

  /// The last value of an option that has to be given.
  package func required(
    _ name: String, of description: CommandDescription
  ) throws(UsageError) -> String {
    if let value = value(name) { return value }
    throw .missingOption("--" + name, of: description.command)
  }

  /// The names in the value of an option that lists them with commas.
  package func list(_ name: String) -> [String]? {
    value(name).map { $0.split(separator: ",").map(String.init) }
  }

  /// All values of an option that repeats.
  package func values(_ name: String) -> [String] {
    options.filter { $0.name == name }.map(\.value)
  }

  /// The value of an option of kind count; a larger one than there can be is the largest.
  package func count(_ name: String) -> Int? { number(name).map { Int(clamping: $0) } }

  /// The value of an option of kind count.
  package func number(_ name: String) -> UInt64? { value(name).flatMap { UInt64($0) } }

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
  package var topology: String? { value(Option.topology.long) }
}
