import PipeRuntime

/// A verb with its arguments, ready to run.
package struct Invocation: Sendable {
  package var verb: any Verb
  package var arguments: ParsedArguments

  package func run(console: Console) throws -> ExitCode {
    try verb.run(arguments, console: console)
  }
}

/// Reads command lines after the verbs' descriptions: `--long`, `--long=value`, `--long value`,
/// `-s`, `-svalue`, `-abc`, `--`; options and positionals in any order, options before the verb too.
package struct ArgumentParser {
  let verbs: [any Verb]

  package init(verbs: [any Verb]) { self.verbs = verbs }

  package func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
    guard let position = verbPosition(in: arguments) else {
      return try parseWithoutVerb(arguments)
    }
    let name = arguments[position]
    guard let verb = verb(named: name) else {
      throw .unknownVerb(
        name, suggestion: Suggestion.nearest(to: name, among: verbs.map(\.description.name)))
    }
    var rest = arguments
    rest.remove(at: position)
    let reader = ArgumentReader(description: verb.description)
    let parsed = try reader.read(rest)
    if parsed.flag("help"), let help = self.verb(named: "help") {
      var asked = ParsedArguments()
      asked.positionals = [name]
      asked.options = parsed.options.filter { $0.key == "no-color" }
      return Invocation(verb: help, arguments: asked)
    }
    try reader.check(parsed)
    return Invocation(verb: verb, arguments: parsed)
  }

  private func verb(named name: String) -> (any Verb)? {
    verbs.first { $0.description.name == name }
  }

  /// The first argument that is no option and no option's value.
  private func verbPosition(in arguments: [String]) -> Int? {
    let takingValues = [Option.topology, .output].flatMap { option in
      ["--" + option.long] + (option.short.map { ["-\($0)"] } ?? [])
    }
    var index = 0
    while index < arguments.count {
      if !arguments[index].hasPrefix("-") { return index }
      index += takingValues.contains(arguments[index]) ? 2 : 1
    }
    return nil
  }

  private func parseWithoutVerb(_ arguments: [String]) throws(UsageError) -> Invocation {
    let description = VerbDescription("", "", options: [.topology, .output, .version])
    let parsed = try ArgumentReader(description: description).read(arguments)
    let name = parsed.flag("version") ? "version" : parsed.flag("help") ? "help" : ""
    guard let verb = verb(named: name) else { throw .missingVerb }
    return Invocation(verb: verb, arguments: parsed)
  }
}

/// Reads the arguments of one verb.
struct ArgumentReader {
  let description: VerbDescription
  private var verbName: String? { description.name.isEmpty ? nil : description.name }

  init(description: VerbDescription) { self.description = description }

  func read(_ arguments: [String]) throws(UsageError) -> ParsedArguments {
    var parsed = ParsedArguments()
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      if argument == "--" {
        parsed.positionals += rest
        break
      } else if argument.hasPrefix("--") {
        try readLong(argument, &rest, into: &parsed)
      } else if argument.hasPrefix("-"), argument.count > 1 {
        try readShorts(argument, &rest, into: &parsed)
      } else {
        parsed.positionals.append(argument)
      }
    }
    return parsed
  }

  private func readLong(
    _ argument: String, _ rest: inout ArraySlice<String>, into parsed: inout ParsedArguments
  ) throws(UsageError) {
    let body = argument.dropFirst(2)
    let name = String(body.prefix { $0 != "=" })
    let attached = body.count > name.count ? String(body.dropFirst(name.count + 1)) : nil
    guard let option = description.allOptions.first(where: { $0.long == name }) else {
      let names = description.allOptions.map(\.long)
      let nearest = Suggestion.nearest(to: name, among: names).map { "--" + $0 }
      throw .unknownOption("--" + name, verb: verbName, suggestion: nearest)
    }
    try take(option, shown: "--" + name, attached: attached, &rest, into: &parsed)
  }

  private func readShorts(
    _ argument: String, _ rest: inout ArraySlice<String>, into parsed: inout ParsedArguments
  ) throws(UsageError) {
    var letters = argument.dropFirst()
    while let letter = letters.popFirst() {
      guard let option = description.allOptions.first(where: { $0.short == letter }) else {
        throw .unknownOption("-\(letter)", verb: verbName, suggestion: nil)
      }
      var attached: String?
      if option.value != nil, !letters.isEmpty {
        attached = String(letters.first == "=" ? letters.dropFirst() : letters)
        letters = ""
      }
      try take(option, shown: "-\(letter)", attached: attached, &rest, into: &parsed)
    }
  }

  private func take(
    _ option: Option, shown: String, attached: String?, _ rest: inout ArraySlice<String>,
    into parsed: inout ParsedArguments
  ) throws(UsageError) {
    guard let kind = option.value else {
      if let attached { throw .unexpectedValue(option: shown, value: attached) }
      parsed.options[option.long, default: []].append("")
      return
    }
    guard let value = attached ?? rest.popFirst() else {
      throw .missingValue(option: shown, placeholder: kind.placeholder)
    }
    if let wanted = kind.problem(with: value) {
      throw .invalidValue(of: shown, value: value, wanted: wanted)
    }
    parsed.options[option.long, default: []].append(value)
  }

  /// Checks the positionals' number and kinds.
  func check(_ parsed: ParsedArguments) throws(UsageError) {
    var rest = parsed.positionals[...]
    for positional in description.positionals {
      let required = positional.arity == .one || positional.arity == .some
      if rest.isEmpty, required {
        throw .missingPositional(positional.name, verb: description.name)
      }
      let repeats = positional.repeats
      for value in repeats ? rest : rest.prefix(1) {
        if let wanted = positional.kind.problem(with: value) {
          throw .invalidValue(of: positional.name, value: value, wanted: wanted)
        }
      }
      rest = repeats ? [] : rest.dropFirst()
    }
    if let extra = rest.first { throw .extraPositional(extra, verb: description.name) }
  }
}

extension ValueKind {
  /// What a value should be like, where this one is not.
  func problem(with value: String) -> String? {
    switch self {
    case .text, .event, .file, .fileOrNode, .directory: value.isEmpty ? "it must not be empty" : nil
    case .count: Int(value).map { $0 < 0 } ?? true ? "it must be a whole number from 0" : nil
    case .duration:
      DurationArgument.parse(value) == nil
        ? "write a number and a unit, as in 500ms, 10s or 2m" : nil
    case .moment: MomentArgument.parse(value) == nil ? MomentArgument.wanted : nil
    case .choice(_, let choices):
      choices.contains(value)
        ? nil
        : "choose " + choices.joined(separator: ", ")
          + (Suggestion.nearest(to: value, among: choices).map { "; did you mean '\($0)'?" } ?? "")
    case .topology, .node:
      RuntimeDirectories.isSafe(value) ? nil : "names are made of A-Z a-z 0-9 _ . -"
    case .signal: Signal(value) == nil ? "name it as in TERM, SIGKILL or 9" : nil
    }
  }
}
