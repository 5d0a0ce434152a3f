import PipeMachines
import PipeSupport
import PipeWire

/// A sequence of steps of a topology with the expected outcomes: the contents of a scenario file.
package struct Scenario: Hashable, Sendable {
  package var name: String
  /// The path of the topology file, relative to the scenario's directory.
  package var topology: String
  /// The property, or the code of the finding, that the scenario demonstrates.
  package var shows: String?
  package var steps: [ScenarioStep]
  /// The expected states of nodes at the end, by name; other nodes are not compared.
  package var end: [String: JSONValue]
  /// The expected contents of pipes at the end, by name, with the head first; other pipes are not
  /// compared.
  package var pipes: [String: [JSONValue]]

  package init(
    name: String, topology: String, shows: String? = nil, steps: [ScenarioStep] = [],
    end: [String: JSONValue] = [:], pipes: [String: [JSONValue]] = [:]
  ) {
    self.name = name
    self.topology = topology
    self.shows = shows
    self.steps = steps
    self.end = end
    self.pipes = pipes
  }
}

/// One step of a scenario.
package struct ScenarioStep: Hashable, Sendable {
  package enum Action: Hashable, Sendable {
    /// Delivers an event to a node or a composite.
    case takes(owner: String, event: JSONValue, from: Origin)
    /// Puts an event into a pipe, from a node that is explored as `any`.
    case sends(node: String, event: JSONValue, into: String)
    /// Ends an effect or a feedback of a node without an event.
    case ends(node: String, effect: String)
    /// Kills the process of a node.
    case crash(node: String)
  }

  /// The origin of an event.
  package enum Origin: Hashable, Sendable {
    case outside
    /// A pipe, by its name.
    case pipe(String)
    /// An effect or a feedback of a node, by its output or its state.
    case effect(node: String, output: String)
  }

  /// The expected outcome of a step.
  package enum Outcome: Hashable, Sendable {
    /// The given nodes are in these states after the step; other nodes are not compared.
    case states([String: JSONValue])
    /// A node refuses the event, for a reason as reported by `orchestrator why`.
    case refused(node: String?, reason: String?)
    /// The process of the node ends.
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

  /// Reads the input of a command-line argument.
  /// - Throws: All errors of the file, in its order.
  package static func read(_ input: TopologyInput) throws(TopologyErrors) -> Result {
    try read(text: input.bytes(), file: input.name)
  }

  /// Reads a text.
  /// - Parameter file: The file's name in diagnostics.
  /// - Throws: All errors of the text, in its order.
  package static func read(text: [UInt8], file: String) throws(TopologyErrors) -> Result {
    var (reading, place) = try TopologyReading.beginReading(
      text, file: file, as: .scenario, variables: TopologyVariables())
    let scenario = ScenarioKeys.top.read(&reading, place, into: ScenarioKeys.top.start)
    guard let scenario, !reading.diagnostics.hasErrors else {
      throw TopologyErrors(reading.diagnostics)
    }
    return (scenario, reading.source)
  }
}

extension Scenario {
  /// The scenario as YAML; ``ScenarioFile`` reads it back to an equal value.
  package var yaml: String { ScenarioKeys.top.written(self).yaml }

  /// The scenario as JSON.
  package var json: JSONValue { ScenarioKeys.top.written(self).json }
}
