import PipeSystem
import PipeWire

/// Reads topology files: YAML, of which JSON is a subset.
///
/// Checks all that the file tells by itself; ``TopologyChecker`` checks the rest against the
/// programs. Source: DESIGN.md 5.
public enum TopologyReader {
  /// A topology, and where its parts stand.
  public typealias Result = (topology: Topology, source: SourceMap)

  /// The largest file that is read. Unit: bytes.
  public static let byteLimit = 1 << 20

  /// Reads a file. Its variables are the environment's, and those of a file `.env` beside it.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try read(.file(path))
  }

  /// Reads what a command line names.
  /// - Throws: All errors of the text, in its order.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try sound(examine(input))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: What diagnostics call it.
  ///   - variables: What `${NAME}` stands for. Default: the environment's variables.
  /// - Throws: All errors of the text, in its order.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try sound(examine(text: Array(text), file: file, variables: variables))
  }

  /// Validates a topology that was built in code; its diagnostics point into its YAML text.
  /// - Throws: All errors of the topology.
  public static func read(_ topology: Topology) throws(TopologyErrors) -> Result {
    try read(
      text: topology.yaml.utf8, file: "topology '\(topology.name)'",
      variables: TopologyVariables([:]))
  }

  /// What could be read of a file, and what is wrong with it.
  package typealias Examined = (
    topology: Topology, source: SourceMap, diagnostics: [Diagnostic]
  )

  /// Reads what can be read of a file, for checks that can be made all the same.
  ///
  /// A pipe that is malformed is left out, of the topology and of the map.
  /// - Throws: All errors of a file that no topology can be made of.
  /// - Parameter environment: The variables that count before those of a file `.env` beside it.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examined {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.beside(".env"), environment: environment))
  }

  private static func sound(_ examined: Examined) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.topology.silence))
    }
    return (examined.topology, examined.source)
  }

  /// Reads what can be read of a text.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables
  ) throws(TopologyErrors) -> Examined {
    var (reading, place) = try TopologyReading.opened(
      text, file: file, as: .topology, variables: variables)
    guard let topology = reading.topology(place) else { throw TopologyErrors(reading.diagnostics) }
    return (topology, reading.source, reading.diagnostics)
  }
}
