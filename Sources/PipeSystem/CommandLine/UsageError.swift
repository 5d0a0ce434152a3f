import Glibc
import PipeSupport

/// A command line that does not fit its description. `of` is the command whose help tells more.
package enum UsageError: Error, Hashable {
  case missingVerb(of: String)
  case unknownVerb(String, suggestion: String?, of: String)
  case unknownOption(String, suggestion: String?, of: String)
  case missingValue(option: String, placeholder: String)
  case unexpectedValue(option: String, value: String)
  case invalidValue(of: String, value: String, wanted: String)
  case missingOption(String, of: String)
  case missingPositional(String, of: String)
  case extraPositional(String, of: String)
}

extension UsageError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .missingVerb(let command): "what to do is missing\n\(Self.advice(command))"
    case .unknownVerb(let verb, let suggestion, let command):
      "unknown verb '\(verb)'\(Suggestion.hint(suggestion))\n\(Self.advice(command))"
    case .unknownOption(let option, let suggestion, let command):
      "unknown option '\(option)'\(Suggestion.hint(suggestion))\n\(Self.advice(command))"
    case .missingValue(let option, let placeholder):
      "option '\(option)' needs a value: \(option) \(placeholder)"
    case .unexpectedValue(let option, let value):
      "option '\(option)' takes no value, but was given '\(value)'"
    case .invalidValue(let name, let value, let wanted):
      "'\(value)' is no value for \(name): \(wanted)"
    case .missingOption(let name, let command):
      "option '\(name)' is missing\n\(Self.advice(command))"
    case .missingPositional(let name, let command):
      "\(name) is missing\n\(Self.advice(command))"
    case .extraPositional(let value, let command):
      "unexpected argument '\(value)'\n\(Self.advice(command))"
    }
  }

  private static func advice(_ command: String) -> String { "Try '\(command) --help'." }

  /// Tells it, and ends the process.
  package func exit(of program: String) -> Never {
    StandardError.write("\(program): error: \(self)\n")
    Glibc.exit(2)
  }
}
