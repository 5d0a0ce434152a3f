import PipeMachines
import PipeSystem
import PipeWire

/// Reads deployment files: YAML, of which JSON is a subset.
///
/// Checks all that the file tells by itself; that it fits its topologies and its machine is checked elsewhere.
/// Source: decision 0062.
public enum DeploymentFile {
  /// A deployment, and where its parts stand.
  public typealias Result = (deployment: Deployment, source: SourceMap)

  /// Reads a file. Its variables are the environment's, and those of a file `.env` beside it.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try sound(examine(.file(path)))
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

  /// What could be read of a file, and what is wrong with it.
  package struct Examined: Sendable {
    package var deployment: Deployment
    package var source: SourceMap
    package var diagnostics: [Diagnostic]

    /// Whether the file names a place, be it one that could not be read.
    func names(_ place: String) -> Bool { source.has(["places", place]) }

    /// Whether the file says where journals are, be it what could not be read.
    var saysJournals: Bool { source.has(["journals"]) }
  }

  /// Reads what can be read of a file, for checks that can be made all the same.
  /// - Parameter environment: The variables that count before those of a file `.env` beside it.
  /// - Throws: All errors of a file that no deployment can be made of.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examined {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.beside(".env"), environment: environment))
  }

  /// Reads what can be read of a text.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Examined {
    var (reading, place) = try TopologyReading.opened(
      text, file: file, as: .deployment, variables: variables)
    let keys = DeploymentKeys.top
    guard let deployment = keys.read(&reading, place, into: keys.start) else {
      throw TopologyErrors(reading.diagnostics)
    }
    return Examined(
      deployment: deployment, source: reading.source, diagnostics: reading.diagnostics)
  }

  private static func sound(_ examined: Examined) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.deployment.silence))
    }
    return (examined.deployment, examined.source)
  }

  /// The JSON Schema of deployment files: the text of `topologies/deployment.schema.json`.
  package static let schema = TopologySchema.text(
    of: DeploymentKeys.top, title: "Deployment", shared: ["variable", "nodeName"])
}
