/// A machine with parameters, whose description is asked of a program.
package struct DescriptionRequest: Hashable, Sendable {
  package var machine: String
  package var parameters: JSONValue

  package init(machine: String, parameters: JSONValue) {
    self.machine = machine
    self.parameters = parameters
  }

  /// What follows `PROGRAM describe`.
  package var arguments: [String] { ["--machine", machine, "--parameters", parameters.text] }
}
