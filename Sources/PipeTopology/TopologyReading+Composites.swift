import PipeMachines
import PipeSupport
import PipeWire

extension TopologyReading {
  /// Checks the references of composites to nodes and to each other, as far as the file alone allows.
  mutating func checkComposites(of topology: Topology) {
    for composite in topology.composites where topology.program(of: composite) == nil {
      reportNoProgram("composite '\(composite.name)'", ["composites", composite.name])
    }
    let problems = Composition.structuralErrors(
      of: topology.composites.map(\.declaration), machines: names(of: .node))
    // A composite that could not be read is not an unknown component.
    let broken = names(of: .composite).filter { topology.composite($0) == nil }
    for problem in problems {
      if case .unknownComponent(let name, let composite, _) = problem {
        if broken.contains(name) { continue }
        if names[name]?.kind == .monitor {
          reportComponent(name, of: composite, topology, "is a monitor, which only watches")
          continue
        }
      }
      guard let diagnostic = problem.diagnostic(in: topology, source) else { continue }
      report(diagnostic.code, at: diagnostic.mark, diagnostic.message)
    }
    for composite in topology.composites {
      for name in composite.components where topology.node(name)?.constant != nil {
        reportComponent(name, of: composite.name, topology, "is constant and accepts no events")
      }
      checkCarrier(of: composite, in: topology)
    }
  }

  /// Checks the carrier node of a composite. Only the machines show whether that node takes part.
  private mutating func checkCarrier(of composite: CompositeSpecification, in topology: Topology) {
    guard let name = composite.within else { return }
    let mark = source.mark(of: ["composites", composite.name, "within"])
    let owner = "composite '\(composite.name)'"
    switch names[name]?.kind {
    case .node where topology.node(name)?.constant != nil:
      report(
        .badHost, at: mark,
        "\(owner): node '\(name)' is constant and does not participate; name a participating node, "
          + "or remove 'within'")
    case .node: break
    case .composite:
      report(
        .badHost, at: mark,
        "\(owner): '\(name)' is a composite, not a node; name the node whose process embeds the "
          + "coordinator")
    case .monitor:
      report(
        .badHost, at: mark,
        "\(owner): '\(name)' is a monitor, not a node; name a participating node")
    case .place, nil:
      let nodes = topology.machines(of: composite.name).filter { topology.node($0) != nil }
      report(
        .unknownNode, at: mark,
        "\(owner): no such node '\(name)'" + Suggestion.among(nodes.sorted(), like: name))
    }
  }

  private mutating func reportComponent(
    _ name: String, of composite: String, _ topology: Topology, _ reason: String
  ) {
    let path = topology.path(ofComponent: name, in: composite)
    report(
      .badComponent, at: path,
      "composite '\(composite)': component '\(name)' \(reason); a component is a node with a "
        + "machine, or a composite")
  }
}

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
      $0.readSynchronizations($1)
    }
  }
}

extension OrderedValue {
  fileprivate static func synchronized(_ events: [Synchronization]) -> OrderedValue? {
    named(events.map { ($0.event, $0.participants.map(names) ?? .leaf(.null)) })
  }
}

extension TopologyReading {
  fileprivate mutating func readSynchronizations(_ place: TopologyCursor) -> [Synchronization] {
    if let names = readNames(recordingPositionsOf: place, of: "events") {
      return names.filter { checkEvent($0, at: source.mark(ofKey: place.path + [$0]), place) }
        .map { Synchronization($0) }
    }
    let hint = "a mapping such as { stop: [door, motor] }, or a list of events"
    return (members(of: place, hint: hint) ?? []).compactMap { member in
      guard checkEvent(member.key, at: member.mark, place) else { return nil }
      if member.value.node.scalar?.value == .null {
        return Synchronization(member.key)
      }
      guard let names = readNames(member.value) else { return nil }
      if names.isEmpty {
        report(
          .badValue, member.value,
          "is empty; list the participants, or remove the list to include every component that "
            + "accepts the event")
        return nil
      }
      return Synchronization(member.key, participants: names)
    }
  }

  private mutating func checkEvent(
    _ name: String, at mark: TextPosition, _ place: TopologyCursor
  ) -> Bool {
    if isIdentifier(name) { return true }
    report(
      .badValue, at: mark,
      "\(place.title) must list events: '\(name)' is not a valid Swift case name; write only the "
        + "name of the event")
    return false
  }
}
