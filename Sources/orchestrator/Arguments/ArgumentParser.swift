import PipeRuntime

/// A verb with its arguments, ready to run.
package struct Invocation: Sendable {
  package var verb: any Verb
  package var arguments: ParsedArguments

  package func run(console: Console) async throws -> ExitCode {
    try await verb.run(arguments, console: console)
  }
}

/// Finds the verb of a command line, and reads the rest after its description; options may stand before
/// the verb, too.
package struct ArgumentParser {
  let verbs: [any Verb]

  package init(verbs: [any Verb]) { self.verbs = verbs }

  package func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
    guard let position = verbPosition(in: arguments) else {
      return try parseWithoutVerb(arguments)
    }
    let name = arguments[position]
    guard let verb = verb(named: name) else {
      throw Help.unknown(name, among: verbs.map(\.description.name))
    }
    var rest = arguments
    rest.remove(at: position)
    var parsed = try verb.description.parse(rest[...])
    guard parsed.flag("help") else { return Invocation(verb: verb, arguments: parsed) }
    parsed.positionals = [name]
    return Invocation(verb: Help(), arguments: parsed)
  }

  private func verb(named name: String) -> (any Verb)? {
    verbs.first { $0.description.name == name }
  }

  /// The first argument that is no option and no option's value.
  private func verbPosition(in arguments: [String]) -> Int? {
    let takingValues = Option.valuedBeforeVerb.flatMap { option in
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
    let parsed = try description.read(arguments[...])
    let name = parsed.flag("version") ? "version" : parsed.flag("help") ? "help" : ""
    guard let verb = verb(named: name) else { throw .missingVerb(of: description.program) }
    return Invocation(verb: verb, arguments: parsed)
  }
}
