import PipeSupport

/// One case of a state, event or output enum: its name and its fields.
public struct CaseDescription: Codable, Hashable, Sendable {
  /// One associated value of a case.
  public struct Field: Codable, Hashable, Sendable {
    /// The label as written in JSON: the Swift label, or `_0`, `_1`, … for a value without a label.
    public var name: String
    /// The name of the value's Swift type without the module, such as `Int` or `Array<String>`.
    public var type: String

    /// Creates a field.
    public init(name: String, type: String) {
      self.name = name
      self.type = type
    }
  }

  /// The case's name, as written in Swift.
  public var name: String
  /// The associated values, in order; empty for a bare case.
  public var fields: [Field]

  /// Creates a case.
  public init(name: String, fields: [Field] = []) {
    self.name = name
    self.fields = fields
  }
}

/// A port that a machine's runtime declares.
public struct PortDescription: Codable, Hashable, Sendable {
  /// The name that the machine's code gives to the port.
  public var name: String
  /// The Swift name of the port's event type.
  public var eventType: String
  /// The cases of the event type.
  public var events: [CaseDescription]
  /// For an out-port, the names of the events that the machine sends into the port. `nil` if a
  /// function computes some of these events, so that they are unknown before the machine runs.
  public var sentEvents: [String]?
  /// For an out-port, the schema version in which the machine sends the receiver's events. `nil` if
  /// the machine does not declare the version.
  public var schema: Int?

  private enum CodingKeys: String, CodingKey {
    case name, eventType, events, schema
    case sentEvents = "sent"
  }

  /// Creates a port.
  public init(
    name: String, eventType: String, events: [CaseDescription], sentEvents: [String]? = nil,
    schema: Int? = nil
  ) {
    self.schema = schema
    self.name = name
    self.eventType = eventType
    self.events = events
    self.sentEvents = sentEvents
  }
}

/// The events that an effect or a feedback of a machine is declared to produce.
public struct EffectDescription: Codable, Hashable, Sendable {
  /// The name of the effect's output, or `feedback1`, `feedback2`, … in the order in which the
  /// runtime adds the feedbacks.
  public var name: String
  /// The names of the events that the effect can produce.
  public var producedEvents: [String]
  /// Whether the effect can also end without producing an event.
  public var mayEndWithoutEvent: Bool

  private enum CodingKeys: String, CodingKey {
    case name
    case producedEvents = "gives"
    case mayEndWithoutEvent = "mayEnd"
  }

  /// Creates a description of an effect.
  public init(name: String, producedEvents: [String], mayEndWithoutEvent: Bool) {
    self.name = name
    self.producedEvents = producedEvents
    self.mayEndWithoutEvent = mayEndWithoutEvent
  }
}

/// A machine's description of itself. With the description, a topology's connections to the machine
/// can be checked without running the machine.
public struct MachineDescription: Codable, Hashable, Sendable {
  /// The machine's registered name.
  public var machine: String
  /// The initial state, as JSON.
  public var initial: JSONValue
  /// The cases of the state type; empty if the state is a struct.
  public var states: [CaseDescription]
  /// The fields of the state type, in the order of declaration, if the state is a struct; otherwise
  /// `nil`.
  public var stateFields: [CaseDescription.Field]?
  /// Every case of the event type.
  public var events: [CaseDescription]
  /// The names of the events that the machine accepts in at least one state.
  public var alphabet: [String]
  /// The names of the events whose transitions are all asynchronous and not self-contained; `nil`
  /// if there are none. Such an event cannot be a synchronized event of several nodes; see
  /// ``SelfContainedEvents``.
  public var asynchronous: [String]?
  /// The names of the events that have both kinds of transitions: transitions that are asynchronous
  /// and not self-contained, and transitions that are synchronous or self-contained. `nil` if there
  /// are no such events. The list contains only the events whose transitions can be read without
  /// running the machine.
  public var partlyAsynchronous: [String]?
  /// The time limits of asynchronous self-contained transitions, by the name of the event; `nil` if
  /// there are none. Unit: milliseconds.
  public var selfContained: [String: Int64]?
  /// The names of the events that the machine always ignores in a state, by the name of the state;
  /// `nil` if there are none.
  public var ignored: [String: [String]]?
  /// Every case of the output type.
  public var outputs: [CaseDescription]
  /// The names of the outputs that no effect is mapped to; `nil` if there are none.
  public var unmappedOutputs: [String]?
  /// The effects and feedbacks whose events are declared; `nil` if there are none.
  public var effects: [EffectDescription]?
  /// The timers, with the properties that are known without running the machine; `nil` if there are
  /// none.
  public var timers: [TimerDescription]?
  /// Whether the machine runs a model, whose state can change without an event; `nil` if it does not.
  public var runsModel: Bool?
  /// The schema version of the machine's states, events and parameters; `nil` for version 1.
  public var schema: Int?
  /// The out-ports: the pipes that the machine sends into.
  public var outPorts: [PortDescription]
  /// The in-ports: the pipes that the machine receives from.
  public var inPorts: [PortDescription]
  /// The reason why the machine cannot run as described; `nil` if the machine can run. Examples are
  /// parameters that cannot be decoded, and a port that is declared twice.
  public var error: String?
  /// The name of the parameter that caused the ``error``; `nil` if no parameter did.
  public var errorParameter: String?

  /// Creates a description.
  public init(
    machine: String, initial: JSONValue, states: [CaseDescription], events: [CaseDescription],
    alphabet: [String], outputs: [CaseDescription], outPorts: [PortDescription],
    inPorts: [PortDescription], error: String? = nil,
    stateFields: [CaseDescription.Field]? = nil
  ) {
    self.stateFields = stateFields
    self.machine = machine
    self.initial = initial
    self.states = states
    self.events = events
    self.alphabet = alphabet
    self.outputs = outputs
    self.outPorts = outPorts
    self.inPorts = inPorts
    self.error = error
  }

  /// Creates a description without cases, for a node without a machine, or for a machine that
  /// cannot describe itself.
  package init(
    machine: String, initial: JSONValue = .null, error: String? = nil, parameter: String? = nil
  ) {
    self.init(
      machine: machine, initial: initial, states: [], events: [], alphabet: [], outputs: [],
      outPorts: [], inPorts: [], error: error)
    errorParameter = parameter
  }

  /// The reason why a node with a `key` cannot run the machine; `nil` if it can.
  package var keyProblem: String? {
    runsModel == true
      ? "machine '\(machine)' runs a model; a node with 'key' runs machines that are written in the "
        + "language, or as a function of state and event" : nil
  }
}

/// The reason why some JSON is not a case of an enum.
package enum CaseMismatch {
  /// The JSON is neither a label nor `{"label": {…}}`.
  case noCase(JSONValue)
  case unknownCase(String, known: [String])
  case unknownField(String, of: CaseDescription)
  case missingField(CaseDescription.Field, of: CaseDescription)
  case wrongType(CaseDescription.Field, JSONValue, of: CaseDescription)

  /// Returns the reason as a sentence.
  /// - Parameters:
  ///   - noun: The noun for the cases: `state`, `event`.
  ///   - owner: The owner of the cases: `machine 'ElevatorDoor'`.
  package func text(noun: String, owner: String) -> String {
    switch self {
    case .noCase(let json):
      "\(json.text) is not a valid \(noun); write a label, or {\"label\":{\"field\":value}}"
    case .unknownCase(let name, let known):
      "\(owner) has no \(noun) '\(name)'" + Suggestion.among(known, like: name)
    case .unknownField(let name, let found):
      "\(noun) \(found.wording) has no field '\(name)'"
        + Suggestion.among(found.fields.map(\.name), like: name)
    case .missingField(let field, let found):
      "field '\(field.name)' of \(noun) \(found.wording) is missing; write '\(found.exampleText)'"
    case .wrongType(let field, let value, let found):
      "field '\(field.name)' of \(noun) \(found.wording) cannot be \(value.text); "
        + "write \(SwiftType(field.type).constraint(of: field.type))"
    }
  }
}

extension [CaseDescription] {
  /// Returns the reasons why `json` is not a case of this enum; empty if none was found.
  ///
  /// Does not check values of custom types, because only the decoders of these types can check such
  /// values.
  package func problems(with json: JSONValue) -> [CaseMismatch] {
    guard let name = json.caseName, let members = json.caseMembers else { return [.noCase(json)] }
    guard let found = first(where: { $0.name == name }) else {
      return [.unknownCase(name, known: map(\.name))]
    }
    let names = found.fields.map(\.name)
    let unknown = members.keys.sorted().filter { !names.contains($0) }
    return unknown.map { .unknownField($0, of: found) }
      + found.fields.compactMap { field in
        let type = SwiftType(field.type)
        guard let value = members[field.name] else {
          if case .optional = type { return nil }
          return .missingField(field, of: found)
        }
        return type.canDecode(value) ? nil : .wrongType(field, value, of: found)
      }
  }

  /// Returns the first reason why `json` is not a case of this enum, as a sentence; `nil` if none
  /// was found.
  package func problem(with json: JSONValue, noun: String, owner: String) -> String? {
    problems(with: json).first?.text(noun: noun, owner: owner)
  }
}

extension [CaseDescription.Field] {
  /// Returns the first reason, as a sentence, why `json` is not an object whose members are among
  /// these fields. Fields may be missing. Returns `nil` if no reason was found.
  /// - Parameter owner: The owner of the fields: `the state of node 'counter'`.
  package func problem(withSome json: JSONValue, owner: String) -> String? {
    guard case .object(let members) = json else {
      let example = CaseDescription(name: "", fields: Array(prefix(1))).exampleMembers.text
      return "\(owner) is a struct: write some of its fields, as in '\(example)'"
    }
    for (name, value) in members.sorted(by: { $0.key < $1.key }) {
      guard let field = first(where: { $0.name == name }) else {
        return "\(owner) has no field '\(name)'" + Suggestion.among(map(\.name), like: name)
      }
      let type = SwiftType(field.type)
      guard type.canDecode(value) else {
        return "field '\(name)' of \(owner) cannot be \(value.text); "
          + "write \(type.constraint(of: field.type))"
      }
    }
    return nil
  }
}

extension CaseDescription {
  /// An example of the case as JSON, as a user would type it: `{"moved":{"to":1}}`.
  package var exampleText: String {
    guard !fields.isEmpty else { return name }
    return JSONValue.object([name: exampleMembers]).text
  }

  fileprivate var exampleMembers: JSONValue {
    let members = fields.map { ($0.name, SwiftType($0.type).example) }
    return .object(Dictionary(members) { first, _ in first })
  }
}

extension SwiftType {
  fileprivate var example: JSONValue {
    switch self {
    case .bool: true
    case .string: "text"
    case .integer: 1
    case .floating: .number(0.5)
    case .array: []
    case .dictionary: [:]
    case .optional(let inner): inner.example
    case .unknown: "…"
    }
  }
}

extension CaseDescription {
  /// The declaration of the case: `'persons(count: Int)'`.
  package var wording: String {
    let list = fields.map { "\($0.name): \($0.type)" }.joined(separator: ", ")
    return fields.isEmpty ? "'\(name)'" : "'\(name)(\(list))'"
  }
}
