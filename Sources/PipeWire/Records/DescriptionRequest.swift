import PipeMachines
import PipeSupport

/// A machine with parameters, whose description is asked of a program.
package struct DescriptionRequest: Hashable, Sendable {
  package var machine: String
  package var parameters: JSONValue

  package init(machine: String, parameters: JSONValue) {
    self.machine = machine
    self.parameters = parameters
  }

  /// Reads what follows `PROGRAM describe`.
  package static func parse(
    _ arguments: some Sequence<String>
  ) throws(NodeUsageError) -> [DescriptionRequest] {
    var requests: [DescriptionRequest] = []
    var iterator = arguments.makeIterator()
    while let name = iterator.next() {
      guard let value = iterator.next() else { throw .missingValue(name) }
      switch name {
      case "--machine": requests.append(DescriptionRequest(machine: value, parameters: [:]))
      case "--parameters":
        guard let parameters = try? JSONValue(parsing: value.utf8) else {
          throw .notJSON(name, value)
        }
        guard !requests.isEmpty else { throw .missingOption("--machine") }
        requests[requests.count - 1].parameters = parameters
      default: throw .unknownOption(name)
      }
    }
    return requests
  }

  /// What follows `PROGRAM describe`.
  package var arguments: [String] { ["--machine", machine, "--parameters", parameters.text] }
}
