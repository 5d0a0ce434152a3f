import PipeMachines
import PipeSupport
import PipeWire

/// Reads and writes scenario files: YAML, of which JSON is a subset.
package enum ScenarioFile {
  /// A scenario, and where its parts stand.
  package typealias Result = (scenario: Scenario, source: SourceMap)

  /// Reads what a command line names.
  /// - Throws: All errors of the file, in its order.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try read(text: input.bytes(), file: input.name)
  }

  /// Reads a text.
  /// - Parameter file: What diagnostics call it.
  /// - Throws: All errors of the text, in its order.
  package static func read(text: [UInt8], file: String) throws(TopologyErrors) -> Result {
    var (reading, place) = try TopologyReading.opened(
      text, file: file, as: .scenario, variables: TopologyVariables())
    let scenario = ScenarioKeys.top.read(&reading, place, into: ScenarioKeys.top.start)
    guard let scenario, !reading.diagnostics.hasErrors else {
      throw TopologyErrors(reading.diagnostics)
    }
    return (scenario, reading.source)
  }
}

extension Scenario {
  /// The scenario as YAML, which ``ScenarioFile`` reads back to an equal value.
  package var yaml: String { ScenarioKeys.top.written(self).yaml }

  /// The scenario as JSON.
  package var json: JSONValue { ScenarioKeys.top.written(self).json }
}
