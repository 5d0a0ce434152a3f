import PipeMachines
import PipeSupport
import PipeWire

extension TopologyReading {
  /// Checks the references of composites to nodes and to other composites. Checks that require
  /// descriptions of machines are in ``TopologyChecker``.
  mutating func checkComposites(of topology: Topology) {
    for composite in topology.composites where topology.program(of: composite) == nil {
      reportNoProgram("composite '\(composite.name)'", ["composites", composite.name])
    }
    let problems = Composition.structuralErrors(
      of: topology.composites.map(\.declaration), machines: definedNames(of: .node))
    // A composite that exists but has errors must not be reported as unknown.
    let broken = definedNames(of: .composite).filter { topology.composite($0) == nil }
    for problem in problems {
      if case .unknownComponent(let name, let composite, _) = problem {
        if broken.contains(name) { continue }
        if definitionsByName[name]?.kind == .monitor {
          reportComponent(name, of: composite, topology, "is a monitor, which only watches")
          continue
        }
      }
      guard let diagnostic = problem.diagnostic(in: topology, source) else { continue }
      report(diagnostic.code, at: diagnostic.position, diagnostic.message)
    }
    for composite in topology.composites {
      for name in composite.components where topology.node(name)?.constant != nil {
        reportComponent(name, of: composite.name, topology, "is constant and accepts no events")
      }
      checkCarrier(of: composite, in: topology)
      checkKey(of: composite, in: topology)
    }
  }

  /// Checks that all nodes of a composite have the composite's key, or that none has a key.
  private mutating func checkKey(of composite: CompositeSpecification, in topology: Topology) {
    let names = topology.memberNames(of: composite.name)
    let nodes = topology.nodes.filter { names.contains($0.name) && $0.constant == nil }
    let path = ["composites", composite.name]
    let owner = "composite '\(composite.name)'"
    guard let key = composite.key else {
      guard let node = nodes.first(where: { $0.key != nil }), let key = node.key else { return }
      report(
        .badComponent, at: path,
        "\(owner): node '\(node.name)' has a 'key', so each synchronized event concerns one of its "
          + "instances; add 'key: \(key)' to the composite")
      return
    }
    for node in nodes where node.key != key {
      let problem =
        node.key.map { "has the key '\($0)', not '\(key)'" } ?? "has no 'key', unlike the composite"
      report(
        .badComponent, at: path + ["key"],
        "\(owner): node '\(node.name)' \(problem); all nodes of a composite with a 'key' have the "
          + "same key; connect other nodes with pipes")
    }
    for node in nodes where node.shards > 1 {
      report(
        .badComponent, at: path + ["key"],
        "\(owner): node '\(node.name)' has 'shards', and composites cannot contain such nodes yet; "
          + "remove 'shards', or connect the node with pipes")
    }
    if composite.projection != nil {
      report(
        .conflictingKeys, at: path + ["projection"],
        "\(owner): 'projection' computes a state from the states of nodes, but nodes with a 'key' "
          + "report the number of instances in each state; remove 'projection'")
    }
  }

  /// Checks that the carrier node of a composite exists. ``TopologyChecker`` checks whether the
  /// carrier node is a participant.
  private mutating func checkCarrier(of composite: CompositeSpecification, in topology: Topology) {
    guard let name = composite.within else { return }
    let mark = source.position(of: ["composites", composite.name, "within"])
    let owner = "composite '\(composite.name)'"
    switch definitionsByName[name]?.kind {
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
      let nodes = topology.memberNames(of: composite.name).filter { topology.node($0) != nil }
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

extension TopologyValueType<[Synchronization]> {
  /// The type of a mapping from events to their participants, or of a list of events.
  static var synchronized: Self {
    let participants: JSONValue = ["anyOf": [["type": "null"], .nodeList(minItems: 1)]]
    let event: JSONValue = ["anyOf": [.reference("caseName"), .variable]]
    let mapping: JSONValue = [
      "type": "object", "propertyNames": .reference("caseName"),
      "additionalProperties": participants,
    ]
    let list: JSONValue = ["type": "array", "items": event, "uniqueItems": true]
    return Self(schema: ["anyOf": [mapping, list]], writeValue: OrderedValue.synchronized) {
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
      return names.filter { checkEvent($0, at: source.position(ofKey: place.path + [$0]), place) }
        .map { Synchronization($0) }
    }
    let hint = "a mapping such as { stop: [door, motor] }, or a list of events"
    return (members(of: place, hint: hint) ?? []).compactMap { member in
      guard checkEvent(member.key, at: member.position, place) else { return nil }
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
