import PipeMachines
import PipeSupport
import PipeWire

extension TopologyValue<[String: JSONValue]> {
  /// States by node.
  static var statesByNode: Self {
    let condition = TopologyValue<StateCondition>.condition
    return Self(
      schema: ["type": "object", "additionalProperties": condition.schema],
      write: { states in
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
      for member in members { states[member.key] = condition.read(&reading, member.value)?.state }
      return states
    }
  }
}

extension TopologyValue<[String: [JSONValue]]> {
  /// Events by pipe.
  static var eventsByPipe: Self {
    Self(
      schema: [
        "type": "object",
        "additionalProperties": ["type": "array", "items": .reference("case")],
      ], definitions: TopologyValue<JSONValue>.state.definitions,
      write: { pipes in
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
          .compactMap { TopologyValue<JSONValue>.state.read(&reading, $0) }
      }
      return pipes
    }
  }
}

extension TopologyValue<ScenarioStep.Origin> {
  /// Where an event comes from; an effect of no node is one of the node that takes it.
  static var origin: Self {
    let pipe: JSONValue = [
      "type": "object", "properties": ["pipe": .someText], "required": ["pipe"],
      "additionalProperties": false,
    ]
    let effect: JSONValue = [
      "type": "object", "properties": ["effect": .someText, "of": .someText],
      "required": ["effect"], "additionalProperties": false,
    ]
    return Self(schema: ["anyOf": [["enum": ["outside"]], pipe, effect]], write: written) {
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

extension TopologyValue<ScenarioEntry.Expectation> {
  /// States of nodes, or the end of the process.
  static var expectation: Self {
    let states = TopologyValue<[String: JSONValue]>.statesByNode
    return Self(
      schema: ["anyOf": [["enum": ["crash"]], states.schema]],
      write: { expectation in
        switch expectation {
        case .crash: .text("crash")
        case .states(let list): states.write(list)
        }
      }
    ) { reading, place in
      if place.node.scalar?.value.string == "crash" { return .crash }
      guard case .mapping = place.node.content else {
        reading.refuse(place, wanted: "states of nodes, as in { door: open }, or 'crash'")
        return nil
      }
      return states.read(&reading, place).map { .states($0) }
    }
  }
}

extension TopologyValue<ScenarioEntry.Refused> {
  /// A reason, or the node that refuses and its reason.
  static var refusal: Self {
    let reasons = ScenarioEntry.Refused.reasons
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
      write: { refused in
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
  fileprivate mutating func reason(_ place: TopologyPlace, _ reasons: [String]) -> String? {
    if let reason = place.node.scalar?.value.string, reasons.contains(reason) { return reason }
    report(
      .badValue, place,
      "cannot be \(place.node.summary)"
        + Suggestion.among(reasons, like: place.node.scalar?.text ?? "", verb: "the reasons are"))
    return nil
  }

  fileprivate mutating func origin(_ place: TopologyPlace) -> ScenarioStep.Origin? {
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
          .unknownKey, at: member.mark,
          "\(place.title) has no key '\(member.key)'"
            + Suggestion.among(["pipe", "effect", "of"], like: member.key, verb: "the keys are"))
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
