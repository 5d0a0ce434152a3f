import PipeMachines
import PipeSupport
import PipeWire

extension TopologyReading {
  mutating func composites(
    _ place: TopologyPlace, _ names: inout Names
  ) -> [CompositeSpecification] {
    namedMembers(of: place, kind: "composite", &names).compactMap { name, value in
      guard let fields = fields(of: value, TopologyKeys.composite) else { return nil }
      let components = fields["components"].flatMap { nameList($0) }
      // Without components, the rest is read for its errors alone.
      var composite = CompositeSpecification(name: name, components: components ?? [])
      if let events = fields["synchronize"] { composite.synchronize = synchronizations(events) }
      composite.projection = fields["projection"].flatMap { string($0) }
      composite.program = fields["program"].flatMap { string($0) }
      // Under a name that is a node's, nothing could be said of it.
      return components == nil || !names.isComposite(name) ? nil : composite
    }
  }

  /// A mapping from events to their participants, or a list of events.
  private mutating func synchronizations(_ place: TopologyPlace) -> [Synchronization] {
    if case .sequence(let nodes) = place.node.content {
      for node in nodes {
        guard case .scalar(let scalar) = node.content else { continue }
        source.record(place.path + [scalar.text], key: node.mark, value: node.mark)
      }
      return (nameList(place, of: "events") ?? [])
        .filter { checkEvent($0, at: source.mark(ofKey: place.path + [$0]), place) }
        .map { Synchronization($0) }
    }
    let hint = "a mapping such as { stop: [door, motor] }, or a list of events"
    return (members(of: place, hint: hint) ?? []).compactMap { member in
      guard checkEvent(member.key, at: member.mark, place) else { return nil }
      if case .scalar(let scalar) = member.value.node.content, scalar.value == .null {
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

  /// Checks what composites say of nodes and of each other, as far as the file tells.
  mutating func checkComposites(of topology: Topology, _ names: Names) {
    for composite in topology.composites where topology.program(of: composite) == nil {
      reportNoProgram("composite '\(composite.name)'", ["composites", composite.name])
    }
    let problems = Composition.structuralProblems(
      of: topology.composites.map(\.declaration), machines: names.nodes)
    // A composite that could not be read is no component that is unknown.
    let broken = names.composites.filter { topology.composite($0) == nil }
    for problem in problems {
      if case .unknownComponent(let name, let composite, _) = problem {
        if broken.contains(name) { continue }
        if names.isMonitor(name) {
          reportComponent(name, of: composite, topology, "is a monitor, which only watches")
          continue
        }
      }
      guard let diagnostic = problem.diagnostic(in: topology, source) else { continue }
      report(diagnostic.code, at: diagnostic.mark, diagnostic.message)
    }
    for composite in topology.composites {
      for name in composite.components where topology.node(name)?.constant != nil {
        reportComponent(name, of: composite.name, topology, "is constant and takes no events")
      }
    }
  }

  private mutating func reportComponent(
    _ name: String, of composite: String, _ topology: Topology, _ reason: String
  ) {
    let path = topology.path(ofComponent: name, in: composite)
    report(
      .badComponent, at: source.mark(of: path),
      "composite '\(composite)': component '\(name)' \(reason); a component is a node with a "
        + "machine, or a composite")
  }
}
