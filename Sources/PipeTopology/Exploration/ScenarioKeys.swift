import PipeMachines
import PipeSupport
import PipeWire

/// The declarations of the keys in scenario files.
package enum ScenarioKeys {
  /// The tables in docs/EXPLORE.md: for each table, its heading and its lines of text.
  package static let documentationTables = [
    ("A scenario", topLevel.tableLines), ("A step", step.tableLines),
  ]

  static let topLevel = TopologyMapping(
    meaning: "Steps of a topology, and their expected outcomes.",
    emptyModel: Scenario(name: "", topology: ""),
    keys: [
      TopologyKey("scenario", \.name, .name, "The scenario's name", isRequired: true),
      TopologyKey(
        "topology", \.topology, .text("a path"),
        "The topology file: a path relative to the scenario's directory", isRequired: true),
      TopologyKey(
        "shows", \.demonstratedFinding, .text,
        "What the scenario shows: a property, or the code of a finding",
        default: "nothing"),
      TopologyKey(
        "steps", \.entries, .list(of: "step", step), "The steps, in order", default: "none"),
      TopologyKey(
        "end", \.expectedStates, .statesByNode,
        "The states of nodes after the last step: `{ NODE: STATE }`. Other nodes are not compared",
        default: "none"),
      TopologyKey(
        "pipes", \.expectedPipeContents, .eventsByPipe,
        "The events in pipes after the last step: `{ PIPE: [EVENT, …] }`, the next event first. "
          + "Other pipes are not compared",
        default: "none"),
    ])

  static let step = TopologyMapping(
    meaning: "One step, and its expected outcome.",
    emptyModel: ScenarioEntry(),
    keys: [
      TopologyKey(
        "at", \.at, .text("a node's name"), "The node, instance or composite that takes the event"),
      TopologyKey(
        "takes", \.takes, .state, "The event: a label, or `{ label: { field: value } }`"),
      TopologyKey(
        "from", \.from, .origin,
        "Where the event comes from: `outside`, `{ pipe: NAME }`, `{ effect: OUTPUT }`, or for a "
          + "composite `{ effect: OUTPUT, of: NODE }`",
        default: "`outside`"),
      TopologyKey(
        "sends", \.sends, .state,
        "Instead of `takes`: the event that a node under `any` sends"),
      TopologyKey("into", \.into, .text("a pipe's name"), "With `sends`: the pipe"),
      TopologyKey(
        "ends", \.ends, .text("an output's name"),
        "Instead of `takes`: the output of the node whose effect ends without sending an event"),
      TopologyKey(
        "timer", \.timer, .text("a duration or `any`"),
        "Instead of `takes`: the timer of the node's state that is due first, by its duration, as in "
          + "`30 s`; `any` is a timer with any duration"),
      TopologyKey(
        "crash", \.crash, .text("a node's name"),
        "Instead of `at` and `takes`: the node whose process is killed. A crash is not replayed in "
          + "one process"),
      TopologyKey(
        "expect", \.expect, .expectation,
        "The states of nodes after the step, `{ NODE: STATE }`; or `crash` if the step ends the "
          + "process",
        default: "the event is accepted"),
      TopologyKey(
        "refused", \.refused, .refusal,
        "The reason why the event is refused, or `{ NODE: REASON }`. Reasons are `noTransition`, "
          + "`guard`, `thrown`, `asynchronous`, `timedOut`, `stateTooLarge` and `undecodable`"),
    ]
  ) { reading, fields, entry in
    reading.complete(entry, fields)
  }
}

/// A step as written in the file: the values of its keys.
struct ScenarioEntry: Sendable {
  enum Expectation: Sendable {
    case states([String: JSONValue])
    case crash
  }

  struct ExpectedRefusal: Sendable {
    var node: String?
    var reason: String

    /// The refusal reasons that a file may name.
    static let reasons = [
      "noTransition", "guard", "thrown", "asynchronous", "timedOut", "stateTooLarge", "undecodable",
    ]

    /// Returns the keyword at the start of a refusal reason, without the details that may follow a
    /// colon. Returns `undecodable` if the reason starts with no keyword.
    static func keyword(for reason: String) -> String {
      reasons.first { reason == $0 || reason.hasPrefix($0 + ":") } ?? "undecodable"
    }
  }

  var at: String?
  var takes: JSONValue?
  var from: ScenarioStep.Origin?
  var sends: JSONValue?
  var into: String?
  var ends: String?
  var timer: String?
  var crash: String?
  var expect: Expectation?
  var refused: ExpectedRefusal?

  init() {}

  /// The value of the key `timer` that matches a timer with any duration.
  private static let anyTimer = "any"

  init(_ step: ScenarioStep) {
    switch step.action {
    case .crash(let node): crash = node
    case .sends(let node, let event, let pipe): (at, sends, into) = (node, event, pipe)
    case .ends(let node, let effect): (at, ends) = (node, effect)
    case .fires(let node, let delay): (at, timer) = (node, delay ?? Self.anyTimer)
    case .takes(let owner, let event, .effect(let node, let output)) where node == owner:
      (at, takes, from) = (owner, event, .effect(node: "", output: output))
    case .takes(let owner, let event, let origin): (at, takes, from) = (owner, event, origin)
    }
    switch step.outcome {
    case .states(let states): expect = states.isEmpty ? nil : .states(states)
    case .processEnds: expect = .crash
    case .refused(let node, let reason):
      refused = ExpectedRefusal(node: node, reason: ExpectedRefusal.keyword(for: reason ?? ""))
    }
  }

  /// The step that the keys describe; `nil` if keys of the step are missing.
  var step: ScenarioStep? {
    let outcome: ScenarioStep.Outcome =
      if let refused {
        .refused(node: refused.node, reason: refused.reason)
      } else {
        switch expect {
        case .states(let states): .states(states)
        case .crash: .processEnds
        case nil: .states([:])
        }
      }
    if let crash { return ScenarioStep(.crash(node: crash), outcome) }
    guard let at else { return nil }
    if let sends, let into {
      return ScenarioStep(.sends(node: at, event: sends, into: into), outcome)
    }
    if let ends { return ScenarioStep(.ends(node: at, effect: ends), outcome) }
    if let timer {
      return ScenarioStep(
        .fires(node: at, after: timer == Self.anyTimer ? nil : timer), outcome)
    }
    guard let takes else { return nil }
    return ScenarioStep(.takes(owner: at, event: takes, from: origin(at: at)), outcome)
  }

  /// Returns the origin of the event that `owner` accepts. An effect that names no node belongs to
  /// `owner`.
  private func origin(at owner: String) -> ScenarioStep.Origin {
    if case .effect("", let output) = from { return .effect(node: owner, output: output) }
    return from ?? .outside
  }
}

extension Scenario {
  var entries: [ScenarioEntry] {
    get { steps.map { ScenarioEntry($0) } }
    set { steps = newValue.compactMap(\.step) }
  }
}

extension TopologyReading {
  fileprivate mutating func complete(_ entry: ScenarioEntry, _ fields: TopologyFields) -> Bool {
    let place = fields.cursor
    if let crash = fields["crash"] {
      if has(["at", "takes", "from", "ends", "timer", "refused"], beside: crash, "crash", fields) {
        return false
      }
      return fields.readKeys.contains("crash")
    }
    if let sends = fields["sends"], fields["at"] != nil {
      if has(["takes", "from", "refused", "ends", "timer"], beside: sends, "sends", fields) {
        return false
      }
      if fields["into"] == nil {
        report(.missingKey, place, "has no 'into'; a step has both 'sends: EVENT' and 'into: PIPE'")
        return false
      }
      return fields.readKeys.isSuperset(of: ["at", "sends", "into"])
    }
    if let ends = fields["ends"], fields["at"] != nil {
      if has(["takes", "from", "refused", "timer"], beside: ends, "ends", fields) { return false }
      return fields.readKeys.isSuperset(of: ["at", "ends"])
    }
    if let timer = fields["timer"], fields["at"] != nil {
      if has(["takes", "from", "refused"], beside: timer, "timer", fields) { return false }
      return fields.readKeys.isSuperset(of: ["at", "timer"])
    }
    for key in ["at", "takes"] where fields[key] == nil {
      report(
        .missingKey, place,
        "has no '\(key)'; a step has both 'at: NODE' and 'takes: EVENT', or 'crash: NODE'")
      return false
    }
    if let refused = fields["refused"], fields["expect"] != nil {
      report(
        .conflictingKeys, at: source.position(ofKey: refused.path),
        "\(place.owner) has both 'expect' and 'refused', but a refused event changes no state; "
          + "remove one of them")
      return false
    }
    return fields.readKeys.isSuperset(of: ["at", "takes"])
  }

  /// Reports an error at the first of these keys that the step has in addition to `key`, because a
  /// step cannot have both. Returns whether there is such a key.
  private mutating func has(
    _ keys: [String], beside place: TopologyCursor, _ key: String, _ fields: TopologyFields
  ) -> Bool {
    guard let other = keys.first(where: { fields[$0] != nil }) else { return false }
    report(
      .conflictingKeys, at: source.position(ofKey: place.path),
      "\(fields.cursor.owner) has both '\(key)' and '\(other)'; split it into two steps")
    return true
  }
}

extension TopologyValueType<[String: JSONValue]> {
  /// The type of a mapping from nodes to states.
  static var statesByNode: Self {
    let condition = TopologyValueType<StateCondition>.condition
    return Self(
      schema: ["type": "object", "additionalProperties": condition.schema],
      writeValue: { states in
        .named(states.sorted { $0.key < $1.key }.map { ($0.key, .literal($0.value)) })
      }
    ) { reading, place in
      guard
        let members = reading.members(
          of: place,
          hint: "a mapping such as { door: open }")
      else {
        return nil
      }
      var states: [String: JSONValue] = [:]
      for member in members {
        states[member.key] = condition.readValue(&reading, member.value)?.state
      }
      return states
    }
  }
}

extension TopologyValueType<[String: [JSONValue]]> {
  /// The type of a mapping from pipes to lists of events.
  static var eventsByPipe: Self {
    Self(
      schema: [
        "type": "object",
        "additionalProperties": ["type": "array", "items": .reference("case")],
      ], schemaDefinitions: TopologyValueType<JSONValue>.state.schemaDefinitions,
      writeValue: { pipes in
        .named(pipes.sorted { $0.key < $1.key }.map { ($0.key, .literal(.array($0.value))) })
      }
    ) { reading, place in
      guard
        let members = reading.members(
          of: place,
          hint: "a mapping from pipes to lists of events")
      else { return nil }
      var pipes: [String: [JSONValue]] = [:]
      for member in members {
        pipes[member.key] = reading.elements(of: member.value, hint: "a list of events")?
          .compactMap { TopologyValueType<JSONValue>.state.readValue(&reading, $0) }
      }
      return pipes
    }
  }
}

extension TopologyValueType<ScenarioStep.Origin> {
  /// The type of an event's origin. An effect without a node belongs to the node that accepts the
  /// event.
  static var origin: Self {
    let pipe: JSONValue = [
      "type": "object", "properties": ["pipe": .nonemptyText], "required": ["pipe"],
      "additionalProperties": false,
    ]
    let effect: JSONValue = [
      "type": "object", "properties": ["effect": .nonemptyText, "of": .nonemptyText],
      "required": ["effect"], "additionalProperties": false,
    ]
    return Self(schema: ["anyOf": [["enum": ["outside"]], pipe, effect]], writeValue: written) {
      $0.origin($1)
    }
  }

  private static func written(_ origin: ScenarioStep.Origin) -> OrderedValue {
    switch origin {
    case .outside: .text("outside")
    case .pipe(let name): .literal(["pipe": .string(name)])
    case .effect("", let output): .literal(["effect": .string(output)])
    case .effect(let node, let output):
      .literal(["effect": .string(output), "of": .string(node)])
    }
  }
}

extension TopologyValueType<ScenarioEntry.Expectation> {
  /// The type of an expected outcome: the states of nodes, or a crash.
  static var expectation: Self {
    let states = TopologyValueType<[String: JSONValue]>.statesByNode
    return Self(
      schema: ["anyOf": [["enum": ["crash"]], states.schema]],
      writeValue: { expectation in
        switch expectation {
        case .crash: .text("crash")
        case .states(let list): states.writeValue(list)
        }
      }
    ) { reading, place in
      if place.node.scalar?.value.string == "crash" { return .crash }
      guard case .mapping = place.node.content else {
        reading.refuse(place, wanted: "states of nodes, as in { door: open }, or 'crash'")
        return nil
      }
      return states.readValue(&reading, place).map { .states($0) }
    }
  }
}

extension TopologyValueType<ScenarioEntry.ExpectedRefusal> {
  /// The type of an expected refusal: a reason, or a mapping from the refusing node to its reason.
  static var refusal: Self {
    let reasons = ScenarioEntry.ExpectedRefusal.reasons
    let reason: JSONValue = ["enum": .texts(reasons)]
    return Self(
      schema: [
        "anyOf": [
          reason,
          [
            "type": "object", "additionalProperties": reason, "minProperties": 1,
            "maxProperties": 1,
          ],
        ]
      ],
      writeValue: { refused in
        refused.node.map { .literal(.object([$0: .string(refused.reason)])) }
          ?? .text(refused.reason)
      }
    ) { reading, place in
      guard case .mapping = place.node.content else {
        return reading.reason(place, reasons).map { .init(node: nil, reason: $0) }
      }
      guard let members = reading.members(of: place) else { return nil }
      guard members.count == 1 else {
        reading.report(.badValue, place, "must name one node and its reason: { door: guard }")
        return nil
      }
      return reading.reason(members[0].value, reasons).map {
        .init(node: members[0].key, reason: $0)
      }
    }
  }
}

extension TopologyReading {
  fileprivate mutating func reason(_ place: TopologyCursor, _ reasons: [String]) -> String? {
    if let reason = place.node.scalar?.value.string, reasons.contains(reason) { return reason }
    report(
      .badValue, place,
      "cannot be \(place.node.summary)"
        + Suggestion.among(reasons, like: place.node.scalar?.text ?? "", verb: "valid reasons are"))
    return nil
  }

  fileprivate mutating func origin(_ place: TopologyCursor) -> ScenarioStep.Origin? {
    if place.node.scalar?.value.string == "outside" { return .outside }
    let hint = "'outside', { pipe: NAME } or { effect: OUTPUT }"
    guard case .mapping = place.node.content else {
      refuse(place, wanted: hint)
      return nil
    }
    guard let members = members(of: place) else { return nil }
    var texts: [String: String] = [:]
    for member in members {
      guard ["pipe", "effect", "of"].contains(member.key) else {
        report(
          .unknownKey, at: member.position,
          "\(place.title): unknown key '\(member.key)'"
            + Suggestion.among(["pipe", "effect", "of"], like: member.key, verb: "valid keys are"))
        return nil
      }
      guard let text = string(member.value, hint: "a name") else { return nil }
      texts[member.key] = text
    }
    switch (texts["pipe"], texts["effect"], texts["of"]) {
    case (let pipe?, nil, nil): return .pipe(pipe)
    case (nil, let output?, let node): return .effect(node: node ?? "", output: output)
    default:
      report(.badValue, place, "must be \(hint)")
      return nil
    }
  }
}
