/// A command line that does not fit the verbs' descriptions.
package enum UsageError: Error, Hashable {
  case missingVerb
  case unknownVerb(String, suggestion: String?)
  case unknownOption(String, verb: String?, suggestion: String?)
  case missingValue(option: String, placeholder: String)
  case unexpectedValue(option: String, value: String)
  case invalidValue(of: String, value: String, wanted: String)
  case missingPositional(String, verb: String)
  case extraPositional(String, verb: String)

  package var code: ExitCode { .usage }
}

extension UsageError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .missingVerb:
      "what to do is missing\nTry 'orchestrator --help'."
    case .unknownVerb(let verb, let suggestion):
      "unknown verb '\(verb)'\(hint(suggestion))\nTry 'orchestrator --help'."
    case .unknownOption(let option, let verb, let suggestion):
      "unknown option '\(option)'\(hint(suggestion))\n\(advice(verb))"
    case .missingValue(let option, let placeholder):
      "option '\(option)' needs a value: \(option) \(placeholder)"
    case .unexpectedValue(let option, let value):
      "option '\(option)' takes no value, but was given '\(value)'"
    case .invalidValue(let name, let value, let wanted):
      "'\(value)' is no value for \(name): \(wanted)"
    case .missingPositional(let name, let verb):
      "\(name) is missing\n\(advice(verb))"
    case .extraPositional(let value, let verb):
      "unexpected argument '\(value)'\n\(advice(verb))"
    }
  }

  private func hint(_ suggestion: String?) -> String {
    suggestion.map { ". Did you mean '\($0)'?" } ?? ""
  }

  private func advice(_ verb: String?) -> String {
    "Try 'orchestrator \(verb.map { $0 + " " } ?? "")--help'."
  }
}
