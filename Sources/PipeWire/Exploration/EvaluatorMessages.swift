import PipeMachines

/// A request to a step evaluator (`PROGRAM explore`): one line with a JSON document. Source:
/// docs/PROTOCOL.md.
package enum EvaluatorRequest: Codable, Hashable, Sendable {
  /// Declares a node, or an instance of a node with a `key`, for later requests. Asks for the
  /// initial configuration of this node or instance.
  case open(
    node: String, machine: String, parameters: JSONValue, outs: [EvaluatorOutPipe],
    instance: EvaluatorInstance? = nil)
  /// Asks how a node in this configuration responds to each input. The evaluator gives one answer
  /// for each input.
  case row(node: String, configuration: EvaluatorConfiguration, inputs: [EvaluatorInput])
  /// Asks for the state of a composite, given the states of the composite's nodes. `composite` is
  /// the registered name of the projection that computes the state.
  case project(composite: String, states: [JSONValue])
  /// Asks the evaluator to replay the steps of a log, and to compare the results with the log. The
  /// evaluator reads the log itself, sends `replaying` regularly, and sends `replayed` at the end.
  case replay(EvaluatorReplay)
}

/// A request to replay a step log of a recorded run.
package struct EvaluatorReplay: Codable, Hashable, Sendable {
  /// The name of a node that an earlier request has opened.
  package var node: String
  /// The path of the log.
  package var log: String
  /// The number of the last line to read.
  package var through: Int
  /// The path of the file to which the evaluator writes the state after each step, a line for each
  /// step; `nil` for no file.
  package var states: String?
  /// The number of the first line to announce. From this line on, the evaluator sends `replaying`
  /// before each line, so that the client can identify a step that ends the process. If `nil`, the
  /// evaluator only sends `replaying` from time to time.
  package var announces: Int?

  package init(
    node: String, log: String, through: Int, states: String? = nil, announces: Int? = nil
  ) {
    self.node = node
    self.log = log
    self.through = through
    self.states = states
    self.announces = announces
  }
}

/// The comparison of a step log with the steps that a machine takes.
package struct EvaluatorReplayReport: Codable, Hashable, Sendable {
  /// A step of the log that the machine does not take, or takes in another way.
  package struct Difference: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, Hashable, Sendable {
      /// The machine refuses the event, or goes to another state.
      case step
      /// The machine sends other events.
      case events
    }

    package var kind: Kind
    package var line: Int
    package var version: UInt64
    package var message: String

    package init(kind: Kind, line: Int, version: UInt64, message: String) {
      self.kind = kind
      self.line = line
      self.version = version
      self.message = message
    }
  }

  /// The maximum number of listed differences.
  package static let maximumDifferences = 100

  /// The number of steps in the log.
  package var steps = 0
  /// The number of steps that were not compared: the transition is asynchronous, or the state before
  /// the step is unknown.
  package var unverified = 0
  /// The first differences, up to ``maximumDifferences``.
  package var differences: [Difference] = []
  /// The number of differences, including differences beyond ``maximumDifferences``.
  package var count = 0

  package init() {}

  package mutating func add(_ difference: Difference) {
    count += 1
    if differences.count < Self.maximumDifferences { differences.append(difference) }
  }
}

/// An instance of a node with a `key`.
package struct EvaluatorInstance: Codable, Hashable, Sendable {
  /// The name of the event field that contains the key.
  package var field: String
  package var key: String
  /// The names of the final states.
  package var final: [String]

  package init(field: String, key: String, final: [String] = []) {
    self.field = field
    self.key = key
    self.final = final
  }
}

/// The sending end of a node's outbound pipe.
package struct EvaluatorOutPipe: Codable, Hashable, Sendable {
  /// The pipe's name.
  package var name: String
  /// The out-port whose events the pipe carries; `nil` if `rule` produces the events.
  package var port: String?
  /// The rule that sends an event on entering a state; `nil` if `port` is set.
  package var rule: NodeConfiguration.Rule?

  package init(name: String, port: String? = nil, rule: NodeConfiguration.Rule? = nil) {
    self.name = name
    self.port = port
    self.rule = rule
  }
}

/// The configuration of a node between two steps: its state and its running effects.
package struct EvaluatorConfiguration: Codable, Hashable, Sendable {
  /// The configuration of an instance that is not created yet.
  package static let notCreated = EvaluatorConfiguration(state: .null)

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
  /// An event from a pipe or a client.
  case take(event: JSONValue)
  /// An event from an effect.
  case give(effect: String, event: JSONValue)
  /// The end of an effect without an event.
  case end(effect: String)
  /// The firing of the state's timer that is due first.
  case fire
}

/// An answer of a step evaluator (`PROGRAM explore`): one line with a JSON document.
package enum EvaluatorAnswer: Codable, Hashable, Sendable {
  case opened(EvaluatorOpening)
  /// The node accepts the input: its step results in this configuration and sends these events.
  /// - Parameter transition: The kind of the transition; `nil` if the node enters a state.
  case accepted(
    configuration: EvaluatorConfiguration, sends: [EvaluatorSend], transition: TransitionKind? = nil
  )
  /// The timer that is due first in the state has fired. `after` is the time from the entry into
  /// the state to the timer, such as `30 s`.
  case fired(after: String, configuration: EvaluatorConfiguration, sends: [EvaluatorSend])
  /// The node refuses the input and takes no step. If the input was the last event of an effect,
  /// the effect has ended nevertheless, and `configuration` does not list the effect.
  case refused(reason: Refusal, configuration: EvaluatorConfiguration)
  /// The JSON is not an event of the machine.
  case undecodable(error: String)
  /// The state of the composite, as the projection computes it.
  case projected(state: JSONValue)
  /// The evaluator reads this line of a log.
  case replaying(line: Int)
  /// All requested lines of a log were read.
  case replayed(EvaluatorReplayReport)
  /// The evaluator cannot compute the step, for example because the transition is asynchronous.
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

/// The initial step of a node, with the effects and events that its machine declares.
package struct EvaluatorOpening: Codable, Hashable, Sendable {
  /// An effect or a feedback of the machine.
  package struct EffectSource: Codable, Hashable, Sendable {
    package var name: String
    /// Whether the effect or feedback may emit more than one event.
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
    /// Whether `values` contains all values that the field can have.
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
  /// Whether the machine may have timers in some state; `nil` means no.
  package var hasTimers: Bool?
  /// The fields of each event of the alphabet, by the event's name.
  package var events: [String: [Field]]

  package init(
    configuration: EvaluatorConfiguration, sends: [EvaluatorSend], effects: [EffectSource],
    hasTimers: Bool? = nil, events: [String: [Field]]
  ) {
    self.hasTimers = hasTimers
    self.configuration = configuration
    self.sends = sends
    self.effects = effects
    self.events = events
  }
}
