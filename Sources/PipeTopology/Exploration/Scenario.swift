import PipeMachines
import PipeSupport
import PipeWire

/// Steps of a topology, one after the other, and what is expected of them: a scenario file as a value.
package struct Scenario: Hashable, Sendable {
  package var name: String
  /// The path of the topology file, from the scenario's directory.
  package var topology: String
  /// The property, or the code of what was found.
  package var shows: String?
  package var steps: [ScenarioStep]
  /// The state of each node at the end, by its name; those that are missing are not compared.
  package var end: [String: JSONValue]
  /// What pipes hold at the end, the head first, by name; those that are missing are not compared.
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
    /// A node or a composite takes an event.
    case takes(owner: String, event: JSONValue, from: Origin)
    /// A node that is explored as `any` puts an event into a pipe.
    case sends(node: String, event: JSONValue, into: String)
    /// An effect or a feedback of a node is over, and gives nothing.
    case ends(node: String, effect: String)
    /// A node's process is killed.
    case crash(node: String)
  }

  /// Where an event comes from.
  package enum Origin: Hashable, Sendable {
    case outside
    /// A pipe, by its name.
    case pipe(String)
    /// An effect or a feedback of a node, by the output or the state that it belongs to.
    case effect(node: String, output: String)
  }

  /// What is to come of it.
  package enum Outcome: Hashable, Sendable {
    /// These nodes are in these states then; others are not compared.
    case states([String: JSONValue])
    /// A node refuses it, for a reason as `orchestrator why` names it.
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
