import PipeMachines
import PipeSupport
import PipeWire

extension TopologyValue<[Synchronization]> {
  /// A mapping from events to their participants, or a list of events.
  static var synchronized: Self {
    let participants: JSONValue = ["anyOf": [["type": "null"], .nodeList(minItems: 1)]]
    let event: JSONValue = ["anyOf": [.reference("caseName"), .variable]]
    let mapping: JSONValue = [
      "type": "object", "propertyNames": .reference("caseName"),
      "additionalProperties": participants,
    ]
    let list: JSONValue = ["type": "array", "items": event, "uniqueItems": true]
    return Self(schema: ["anyOf": [mapping, list]], write: OrderedValue.synchronized) {
      $0.synchronizations($1)
    }
  }
}

extension OrderedValue {
  fileprivate static func synchronized(_ events: [Synchronization]) -> OrderedValue? {
    named(events.map { ($0.event, $0.participants.map(names) ?? .leaf(.null)) })
  }
}

extension TopologyReading {
  fileprivate mutating func synchronizations(_ place: TopologyPlace) -> [Synchronization] {
    if let names = nameList(findable: place, of: "events") {
      return names.filter { checkEvent($0, at: source.mark(ofKey: place.path + [$0]), place) }
        .map { Synchronization($0) }
    }
    let hint = "a mapping such as { stop: [door, motor] }, or a list of events"
    return (members(of: place, hint: hint) ?? []).compactMap { member in
      guard checkEvent(member.key, at: member.mark, place) else { return nil }
      if member.value.node.scalar?.value == .null {
        return Synchronization(member.key)
      }
      guard let names = nameList(member.value) else { return nil }
      if names.isEmpty {
        report(
          .badValue, member.value,
          "is empty; name the participants, or leave the list out for every component that takes "
            + "the event")
        return nil
      }
      return Synchronization(member.key, participants: names)
    }
  }

  private mutating func checkEvent(
    _ name: String, at mark: SourceMark, _ place: TopologyPlace
  ) -> Bool {
    if isIdentifier(name) { return true }
    report(
      .badValue, at: mark,
      "\(place.title) must name events: '\(name)' is no Swift case; write the event's name alone")
    return false
  }
}
