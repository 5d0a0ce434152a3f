import Glibc
import PipeSupport

extension CommandDescription {
  /// Parses the arguments, and checks the positionals unless the arguments contain `--help`.
  /// Accepts `--long`, `--long=value`, `--long value`, `-s`, `-svalue`, `-abc` and `--`, with
  /// options and positionals in any order.
  package func parse(_ arguments: ArraySlice<String>) throws(UsageError) -> ParsedArguments {
    let parsed = try read(arguments)
    if !parsed.contains(option: Option.help.long) { try check(parsed) }
    return parsed
  }

  /// Parses the arguments of a program or verb. If the arguments contain `--help`, prints the help
  /// and exits. If the arguments are invalid, exits with code 2.
  package func parseOrExit(_ arguments: ArraySlice<String>) -> ParsedArguments {
    do {
      let parsed = try parse(arguments)
      guard parsed.contains(option: Option.help.long) else { return parsed }
      print(HelpText().helpPage(self), terminator: "")
      exit(0)
    } catch {
      error.exit(of: program)
    }
  }

  /// Parses the options and the positionals according to the description. Does not check the
  /// positionals.
  package func read(_ arguments: ArraySlice<String>) throws(UsageError) -> ParsedArguments {
    var reader = ArgumentReader(description: self, remainingArguments: arguments)
    return try reader.read()
  }

  /// Throws an error if the number of positionals or one of their values does not fit the
  /// description.
  package func check(_ parsed: ParsedArguments) throws(UsageError) {
    var rest = parsed.positionals[...]
    for positional in positionals {
      let required = positional.arity == .one || positional.arity == .some
      if rest.isEmpty, required { throw .missingPositional(positional.name, of: command) }
      let repeats = positional.isRepeatable
      for value in repeats ? rest : rest.prefix(1) {
        if let wanted = positional.kind.problem(with: value) {
          throw .invalidValue(for: positional.name, value: value, expected: wanted)
        }
      }
      rest = repeats ? [] : rest.dropFirst()
    }
    if let extra = rest.first { throw .extraPositional(extra, of: command) }
  }
}

/// A parser of the arguments of one command.
private struct ArgumentReader {
  let description: CommandDescription
  var remainingArguments: ArraySlice<String>
  var parsed = ParsedArguments()

  mutating func read() throws(UsageError) -> ParsedArguments {
    while let argument = remainingArguments.popFirst() {
      if argument == "--" {
        parsed.positionals += remainingArguments
        break
      } else if argument.hasPrefix("--") {
        try readLong(argument)
      } else if argument.hasPrefix("-"), argument.count > 1 {
        try readShorts(argument)
      } else {
        parsed.positionals.append(argument)
      }
    }
    return parsed
  }

  private mutating func readLong(_ argument: String) throws(UsageError) {
    let body = argument.dropFirst(2)
    let name = String(body.prefix { $0 != "=" })
    let attachedValue = body.count > name.count ? String(body.dropFirst(name.count + 1)) : nil
    guard let option = description.allOptions.first(where: { $0.long == name }) else {
      let nearest = Suggestion.closest(to: name, among: description.allOptions.map(\.long))
      throw .unknownOption(
        "--" + name, suggestion: nearest.map { "--" + $0 }, of: description.command)
    }
    try take(option, shown: "--" + name, attachedValue: attachedValue)
  }

  private mutating func readShorts(_ argument: String) throws(UsageError) {
    var letters = argument.dropFirst()
    while let letter = letters.popFirst() {
      guard let option = description.allOptions.first(where: { $0.short == letter }) else {
        throw .unknownOption("-\(letter)", suggestion: nil, of: description.command)
      }
      var attachedValue: String?
      if option.value != nil, !letters.isEmpty {
        attachedValue = String(letters.first == "=" ? letters.dropFirst() : letters)
        letters = ""
      }
      try take(option, shown: "-\(letter)", attachedValue: attachedValue)
    }
  }

  private mutating func take(
    _ option: Option, shown: String, attachedValue: String?
  ) throws(UsageError) {
    guard let kind = option.value else {
      if let attachedValue { throw .unexpectedValue(option: shown, value: attachedValue) }
      parsed.options.append(.init(name: option.long, value: ""))
      return
    }
    guard let value = attachedValue ?? remainingArguments.popFirst() else {
      throw .missingValue(option: shown, placeholder: kind.placeholder)
    }
    if let wanted = kind.problem(with: value) {
      throw .invalidValue(for: shown, value: value, expected: wanted)
    }
    parsed.options.append(.init(name: option.long, value: value))
  }
}

/// The options and positionals of a command line. The values of options are valid; the positionals
/// may be unchecked.
package struct ParsedArguments: Hashable, Sendable {
  /// An option on the command line.
  package struct OptionValue: Hashable, Sendable {
    /// The long name of the option.
    package var name: String
    /// The value; empty for a flag.
    package var value: String
  }

  package var positionals: [String] = []
  /// The options, in the order of the command line.
  package var options: [OptionValue] = []

  package init() {}

  /// Whether the command line contains the option with this long name, with or without a value.
  package func contains(option name: String) -> Bool { options.contains { $0.name == name } }

  /// Returns the last value of an option; `nil` if the option is missing.
  package func value(_ name: String) -> String? { options.last { $0.name == name }?.value }

  /// Returns the last value of an option, converted to `type`; `nil` if the option is missing.
  package func value<Value: RawRepresentable>(
    _ name: String, as type: Value.Type = Value.self
  ) -> Value? where Value.RawValue == String {
    value(name).flatMap { Value(rawValue: $0) }
  }

  /// Returns the last value of a required option. Throws an error if the option is missing.
  package func required(
    _ name: String, of description: CommandDescription
  ) throws(UsageError) -> String {
    if let value = value(name) { return value }
    throw .missingOption("--" + name, of: description.command)
  }

  /// Returns the value of an option, split at commas; `nil` if the option is missing.
  package func commaSeparatedValues(_ name: String) -> [String]? {
    value(name).map { $0.split(separator: ",").map(String.init) }
  }

  /// Returns all values of an option that can be repeated.
  package func values(_ name: String) -> [String] {
    options.filter { $0.name == name }.map(\.value)
  }

  /// Returns the value of an option of kind `count`, clamped to the range of `Int`.
  package func countValue(_ name: String) -> Int? { numberValue(name).map { Int(clamping: $0) } }

  /// Returns the value of an option of kind `count`.
  package func numberValue(_ name: String) -> UInt64? { value(name).flatMap { UInt64($0) } }

  /// Returns the value of an option of kind `duration`.
  package func duration(_ name: String) -> Duration? {
    value(name).flatMap { DurationText.parse($0) }
  }

  /// Returns the value of an option of kind `moment`.
  package func moment(_ name: String) -> Timestamp? {
    value(name).flatMap { MomentArgument.parse($0) }
  }

  /// Returns the value of an option of kind `signal`.
  package func signal(_ name: String) -> Signal? { value(name).flatMap { Signal($0) } }

  /// The name of the topology that the option `-p` selects; `nil` if the option is missing.
  package var topology: String? { value(Option.topology.long) }
}
