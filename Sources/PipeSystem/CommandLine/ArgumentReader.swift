import Glibc
import PipeSupport

extension CommandDescription {
  /// Parses arguments and checks them, unless they ask for help. Accepts `--long`, `--long=value`,
  /// `--long value`, `-s`, `-svalue`, `-abc` and `--`, with options and positionals in any order.
  package func parse(_ arguments: ArraySlice<String>) throws(UsageError) -> ParsedArguments {
    let parsed = try read(arguments)
    if !parsed.flag(Option.help.long) { try check(parsed) }
    return parsed
  }

  /// Parses the arguments of a program or of one of its verbs. Prints the help and exits if the
  /// arguments ask for it; exits with code 2 if the arguments are invalid.
  package func parseOrExit(_ arguments: ArraySlice<String>) -> ParsedArguments {
    do {
      let parsed = try parse(arguments)
      guard parsed.flag(Option.help.long) else { return parsed }
      print(HelpText().page(self), terminator: "")
      exit(0)
    } catch {
      error.exit(of: program)
    }
  }

  /// Parses the options according to the description. Does not check the positionals.
  package func read(_ arguments: ArraySlice<String>) throws(UsageError) -> ParsedArguments {
    var reader = ArgumentReader(description: self, rest: arguments)
    return try reader.read()
  }

  /// Checks the number and the kinds of the positionals.
  package func check(_ parsed: ParsedArguments) throws(UsageError) {
    var rest = parsed.positionals[...]
    for positional in positionals {
      let required = positional.arity == .one || positional.arity == .some
      if rest.isEmpty, required { throw .missingPositional(positional.name, of: command) }
      let repeats = positional.repeats
      for value in repeats ? rest : rest.prefix(1) {
        if let wanted = positional.kind.problem(with: value) {
          throw .invalidValue(of: positional.name, value: value, wanted: wanted)
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
  var rest: ArraySlice<String>
  var parsed = ParsedArguments()

  mutating func read() throws(UsageError) -> ParsedArguments {
    while let argument = rest.popFirst() {
      if argument == "--" {
        parsed.positionals += rest
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
    var deadLetters = argument.dropFirst()
    while let deadLetter = deadLetters.popFirst() {
      guard let option = description.allOptions.first(where: { $0.short == deadLetter }) else {
        throw .unknownOption("-\(deadLetter)", suggestion: nil, of: description.command)
      }
      var attachedValue: String?
      if option.value != nil, !deadLetters.isEmpty {
        attachedValue = String(deadLetters.first == "=" ? deadLetters.dropFirst() : deadLetters)
        deadLetters = ""
      }
      try take(option, shown: "-\(deadLetter)", attachedValue: attachedValue)
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
    guard let value = attachedValue ?? rest.popFirst() else {
      throw .missingValue(option: shown, placeholder: kind.placeholder)
    }
    if let wanted = kind.problem(with: value) {
      throw .invalidValue(of: shown, value: value, wanted: wanted)
    }
    parsed.options.append(.init(name: option.long, value: value))
  }
}

/// The values of a command line, checked against its description.
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

  /// Whether the command line contains a flag, or an option with a value.
  package func flag(_ name: String) -> Bool { options.contains { $0.name == name } }

  /// Returns the last value of an option.
  package func value(_ name: String) -> String? { options.last { $0.name == name }?.value }

  /// Returns the last value of an option, converted to `type`.
  package func value<Value: RawRepresentable>(
    _ name: String, as type: Value.Type = Value.self
  ) -> Value? where Value.RawValue == String {
    value(name).flatMap { Value(rawValue: $0) }
  }

  /// Returns the last value of a required option.
  package func required(
    _ name: String, of description: CommandDescription
  ) throws(UsageError) -> String {
    if let value = value(name) { return value }
    throw .missingOption("--" + name, of: description.command)
  }

  /// Returns the names in the value of an option, which is a comma-separated list.
  package func list(_ name: String) -> [String]? {
    value(name).map { $0.split(separator: ",").map(String.init) }
  }

  /// Returns all values of an option that may be repeated.
  package func values(_ name: String) -> [String] {
    options.filter { $0.name == name }.map(\.value)
  }

  /// Returns the value of an option of kind `count`, clamped to the range of `Int`.
  package func count(_ name: String) -> Int? { number(name).map { Int(clamping: $0) } }

  /// Returns the value of an option of kind `count`.
  package func number(_ name: String) -> UInt64? { value(name).flatMap { UInt64($0) } }

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

  /// The topology that `-p` names.
  package var topology: String? { value(Option.topology.long) }
}
