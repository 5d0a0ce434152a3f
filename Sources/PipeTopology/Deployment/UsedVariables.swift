import PipeSystem
import PipeWire

/// What the variables of a file stand for here, for another place where it is to be read the same.
package enum UsedVariables {
  /// What kind of file it is.
  package enum Kind: Sendable {
    case topology, deployment
  }

  /// The values by the variables' names, but for those that stand for their default.
  /// - Parameter environment: The variables that count before those of a file `.env` beside it.
  package static func of(
    _ input: TopologyInput, as kind: Kind,
    environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> [String: String] {
    // What is wrong with the text is told by who reads it.
    guard let root = try? YAMLDocument.parse(try input.bytes()) else { return [:] }
    var reading = TopologyReading(file: input.name)
    return reading.variables(
      in: root, of: kind == .topology ? .topology : .deployment,
      TopologyVariables(file: input.beside(".env"), environment: environment))
  }
}
