import PipeMachines

/// What `PROGRAM explore` is asked, a JSON document in a line each. Source: docs/PROTOCOL.md.
package enum OracleRequest: Codable, Hashable, Sendable {
  /// Which node the questions that name it are about, and how it begins.
  case open(node: String, machine: String, parameters: JSONValue, outs: [OracleOut])
  /// What a node does with each of these inputs, were it in this configuration; one answer for each.
  case row(node: String, configuration: OracleConfiguration, inputs: [OracleInput])
  /// What a registered composite state is in these states of its nodes.
  case project(composite: String, states: [JSONValue])
}

/// The sending end of a pipe.
package struct OracleOut: Codable, Hashable, Sendable {
  /// The pipe's name.
  package var name: String
  /// The out-port in code that feeds it, or `nil` where `rule` does.
  package var port: String?
  /// The state rule that feeds it.
  package var rule: NodeConfiguration.Rule?

  package init(name: String, port: String? = nil, rule: NodeConfiguration.Rule? = nil) {
    self.name = name
    self.port = port
    self.rule = rule
  }
}

/// Where a node stands between two steps.
package struct OracleConfiguration: Codable, Hashable, Sendable {
  package var state: JSONValue
  /// The effects that are under way, by name, sorted.
  package var effects: [String]

  package init(state: JSONValue, effects: [String] = []) {
    self.state = state
    self.effects = effects
  }
}

/// What a node may be given.
package enum OracleInput: Codable, Hashable, Sendable {
  /// An event from elsewhere.
  case take(event: JSONValue)
  /// An event that an effect gives.
  case give(effect: String, event: JSONValue)
  /// The end of an effect without an event.
  case end(effect: String)
}

/// What `PROGRAM explore` says, a JSON document in a line each.
package enum OracleAnswer: Codable, Hashable, Sendable {
  case opened(OracleOpening)
  /// The step leads to this configuration, and sends this.
  case moved(configuration: OracleConfiguration, sends: [OracleSend])
  /// No step; an effect whose last event it was is over all the same.
  case refused(because: Refusal, configuration: OracleConfiguration)
  /// The JSON is no event of the machine.
  case undecodable(problem: String)
  /// The composite state.
  case projected(state: JSONValue)
  /// Only a run would tell: the transition is asynchronous, say.
  case unable(because: String)
  /// The question is wrong.
  case invalid(problem: String)
}

/// An event that a step sends.
package struct OracleSend: Codable, Hashable, Sendable {
  /// The name of the pipe.
  package var pipe: String
  package var event: JSONValue

  package init(pipe: String, event: JSONValue) {
    self.pipe = pipe
    self.event = event
  }
}

/// How a node begins.
package struct OracleOpening: Codable, Hashable, Sendable {
  /// An effect or a feedback of the machine.
  package struct Work: Codable, Hashable, Sendable {
    package var name: String
    /// Whether it may give more than one event.
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
    /// Whether these are all that there are.
    package var isComplete: Bool

    package init(name: String, values: [JSONValue], isComplete: Bool) {
      self.name = name
      self.values = values
      self.isComplete = isComplete
    }
  }

  package var configuration: OracleConfiguration
  package var sends: [OracleSend]
  package var works: [Work]
  /// Of each event of the alphabet its fields.
  package var events: [String: [Field]]

  package init(
    configuration: OracleConfiguration, sends: [OracleSend], works: [Work],
    events: [String: [Field]]
  ) {
    self.configuration = configuration
    self.sends = sends
    self.works = works
    self.events = events
  }
}
