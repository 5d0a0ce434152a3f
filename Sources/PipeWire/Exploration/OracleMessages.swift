import PipeMachines

/// A request to `PROGRAM explore`: one JSON document on a line. Source: docs/PROTOCOL.md.
package enum EvaluatorRequest: Codable, Hashable, Sendable {
  /// Declares the node that later requests name, and asks how it starts.
  case open(node: String, machine: String, parameters: JSONValue, outs: [EvaluatorOutPipe])
  /// Asks what a node in this configuration does with each of these inputs. One answer for each input.
  case row(node: String, configuration: EvaluatorConfiguration, inputs: [EvaluatorInput])
  /// Asks for a registered composite state, given the states of its nodes.
  case project(composite: String, states: [JSONValue])
}

/// The sending end of a pipe.
package struct EvaluatorOutPipe: Codable, Hashable, Sendable {
  /// The pipe's name.
  package var name: String
  /// The out-port in code that feeds the pipe, or `nil` if `rule` does.
  package var port: String?
  /// The state rule that feeds the pipe.
  package var rule: NodeConfiguration.Rule?

  package init(name: String, port: String? = nil, rule: NodeConfiguration.Rule? = nil) {
    self.name = name
    self.port = port
    self.rule = rule
  }
}

/// The configuration of a node between two steps.
package struct EvaluatorConfiguration: Codable, Hashable, Sendable {
  package var state: JSONValue
  /// The names of the effects in progress, sorted.
  package var effects: [String]

  package init(state: JSONValue, effects: [String] = []) {
    self.state = state
    self.effects = effects
  }
}

/// An input for a node.
package enum EvaluatorInput: Codable, Hashable, Sendable {
  /// An event from outside the node.
  case take(event: JSONValue)
  /// An event from an effect.
  case give(effect: String, event: JSONValue)
  /// The end of an effect without an event.
  case end(effect: String)
}

/// An answer of `PROGRAM explore`: one JSON document on a line.
package enum EvaluatorAnswer: Codable, Hashable, Sendable {
  case opened(EvaluatorOpening)
  /// The step results in this configuration and sends these events.
  case accepted(configuration: EvaluatorConfiguration, sends: [EvaluatorSend])
  /// The node takes no step. If the input was the last event of an effect, the effect ends nevertheless.
  case refused(reason: Refusal, configuration: EvaluatorConfiguration)
  /// The JSON is not an event of the machine.
  case undecodable(error: String)
  /// The composite state.
  case projected(state: JSONValue)
  /// Only a run could answer: the transition is asynchronous, for example.
  case undecided(reason: String)
  /// The request is invalid.
  case invalid(error: String)
}

/// An event that a step sends.
package struct EvaluatorSend: Codable, Hashable, Sendable {
  /// The name of the pipe.
  package var pipe: String
  package var event: JSONValue

  package init(pipe: String, event: JSONValue) {
    self.pipe = pipe
    self.event = event
  }
}

/// The start of a node.
package struct EvaluatorOpening: Codable, Hashable, Sendable {
  /// An effect or a feedback of the machine.
  package struct EffectSource: Codable, Hashable, Sendable {
    package var name: String
    /// Whether the effect or feedback may give more than one event.
    package var isSequence: Bool

    package init(name: String, isSequence: Bool) {
      self.name = name
      self.isSequence = isSequence
    }
  }

  /// Values to try for a field of an event.
  package struct Field: Codable, Hashable, Sendable {
    package var name: String
    package var values: [JSONValue]
    /// Whether the field has no other values.
    package var isComplete: Bool

    package init(name: String, values: [JSONValue], isComplete: Bool) {
      self.name = name
      self.values = values
      self.isComplete = isComplete
    }
  }

  package var configuration: EvaluatorConfiguration
  package var sends: [EvaluatorSend]
  package var effects: [EffectSource]
  /// The fields of each event of the alphabet.
  package var events: [String: [Field]]

  package init(
    configuration: EvaluatorConfiguration, sends: [EvaluatorSend], effects: [EffectSource],
    events: [String: [Field]]
  ) {
    self.configuration = configuration
    self.sends = sends
    self.effects = effects
    self.events = events
  }
}
