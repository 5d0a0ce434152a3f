import PipeMachines
import PipeSupport
import PipeWire

/// The contents of a scenario file: steps of a topology, with their expected outcomes.
package struct Scenario: Hashable, Sendable {
  package var name: String
  /// The path of the topology file, relative to the scenario's directory.
  package var topology: String
  /// The name of the property, or the code of the finding, that the scenario demonstrates.
  package var demonstratedFinding: String?
  package var steps: [ScenarioStep]
  /// The expected states after the last step, by node. Nodes that are not listed are not compared.
  package var expectedStates: [String: JSONValue]
  /// The expected contents of pipes after the last step, by pipe, with the oldest event first.
  /// Pipes that are not listed are not compared.
  package var expectedPipeContents: [String: [JSONValue]]

  package init(
    name: String, topology: String, demonstratedFinding: String? = nil, steps: [ScenarioStep] = [],
    end: [String: JSONValue] = [:], pipes: [String: [JSONValue]] = [:]
  ) {
    self.name = name
    self.topology = topology
    self.demonstratedFinding = demonstratedFinding
    self.steps = steps
    self.expectedStates = end
    self.expectedPipeContents = pipes
  }
}

/// One step of a scenario.
package struct ScenarioStep: Hashable, Sendable {
  package enum Action: Hashable, Sendable {
    /// Delivers an event to a node or a composite.
    case takes(owner: String, event: JSONValue, from: Origin)
    /// Sends an event into a pipe, from a node listed under `any`.
    case sends(node: String, event: JSONValue, into: String)
    /// Ends an effect or a feedback of a node without an event.
    case ends(node: String, effect: String)
    /// Fires the timer that is due first in a node's state.
    /// - Parameter after: The expected duration of the timer, such as `30 s`; `nil` if any duration
    ///   is expected.
    case fires(node: String, after: String?)
    /// Kills the process of a node.
    case crash(node: String)
  }

  /// The origin of an event.
  package enum Origin: Hashable, Sendable {
    case outside
    /// A pipe, by its name.
    case pipe(String)
    /// An effect of a node, by its output, or a feedback, by its state.
    case effect(node: String, output: String)
  }

  /// The expected outcome of a step.
  package enum Outcome: Hashable, Sendable {
    /// The states after the step, by node. Nodes that are not listed are not compared.
    case states([String: JSONValue])
    /// A node refuses the event. The reason is in the same words as in `orchestrator why`.
    case refused(node: String?, reason: String?)
    /// The process of the node crashes.
    case processEnds
  }

  package var action: Action
  package var outcome: Outcome

  package init(_ action: Action, _ outcome: Outcome = .states([:])) {
    self.action = action
    self.outcome = outcome
  }
}

/// Reads and writes scenario files: YAML, which includes JSON.
package enum ScenarioFile {
  /// A scenario with a map of its source locations.
  package typealias Result = (scenario: Scenario, source: SourceMap)

  /// Reads a scenario from a file or from standard input.
  /// - Throws: All errors of the file, in the order of the file.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try read(text: input.bytes(), file: input.name)
  }

  /// Reads a text.
  /// - Parameter file: The file's name in diagnostics.
  /// - Throws: All errors of the text, in the order of the text.
  package static func read(text: [UInt8], file: String) throws(TopologyErrors) -> Result {
    var (reading, place) = try TopologyReading.beginReading(
      text, file: file, as: .scenario, variables: TopologyVariables())
    let scenario = ScenarioKeys.topLevel.read(
      &reading, place, into: ScenarioKeys.topLevel.emptyModel)
    guard let scenario, !reading.diagnostics.hasErrors else {
      throw TopologyErrors(reading.diagnostics)
    }
    return (scenario, reading.source)
  }
}

extension Scenario {
  /// The scenario as YAML; ``ScenarioFile`` reads it back to an equal value.
  package var yaml: String { ScenarioKeys.topLevel.document(of: self).yaml }

  /// The scenario as JSON.
  package var json: JSONValue { ScenarioKeys.topLevel.document(of: self).json }
}
