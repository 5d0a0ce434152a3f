import PipeMachines
import PipeSystem

/// A machine with parameters, whose description is asked of a program.
package struct DescriptionRequest: Hashable, Sendable {
  package var machine: String
  package var parameters: JSONValue

  package init(machine: String, parameters: JSONValue) {
    self.machine = machine
    self.parameters = parameters
  }

  /// `PROGRAM describe`
  package static func description(of program: String) -> CommandDescription {
    CommandDescription(
      "describe", of: program, "Writes what its machines take and give, as JSON",
      options: [
        Option(
          "machine", value: .text("MACHINE"), repeats: true,
          "Of this machine alone, by registered name"),
        Option(
          "parameters", value: .text("JSON"), repeats: true,
          "With these parameters of the machine before. Default: {}"),
      ])
  }

  /// The machines that are asked for, each with its parameters.
  package static func requests(
    _ arguments: ParsedArguments, of program: String
  ) throws(UsageError) -> [DescriptionRequest] {
    var requests: [DescriptionRequest] = []
    for (name, value) in arguments.options.map({ ($0.name, $0.value) }) {
      if name == "machine" {
        requests.append(DescriptionRequest(machine: value, parameters: [:]))
      } else if requests.isEmpty {
        throw .missingOption("--machine", of: description(of: program).command)
      } else {
        requests[requests.count - 1].parameters = try JSONValue(
          argument: value, of: "--parameters")
      }
    }
    return requests
  }

  /// What follows `PROGRAM describe`.
  package var arguments: [String] { ["--machine", machine, "--parameters", parameters.text] }
}
