import PipeMachines
import PipeSupport
import PipeWire

extension TopologyChecker {
  /// Checks the composites against their machines, and stores the composites for the checks of
  /// pipes.
  mutating func checkComposites() {
    var machines: [String: MachineDescription] = [:]
    for node in topology.nodes where node.constant == nil {
      machines[node.name] = machine(of: node)
    }
    // The reader has already reported structural errors. Further checks would only report errors
    // that follow from them.
    let problems = Composition.structuralErrors(
      of: topology.composites.map(\.declaration), machines: topology.nodes.map(\.name))
    guard problems.isEmpty else { return }
    do {
      let composites = try TopologyComposites(topology, machines: machines)
      self.composites = composites
      for vector in composites.composition.vectors {
        checkPayloads(of: vector, in: composites)
        checkTransitions(of: vector, in: composites)
      }
      for plan in composites.coordinatorPlans {
        checkPrograms(of: plan)
        checkCarrier(of: plan)
      }
      checkEffects(in: composites)
    } catch {
      for problem in error.problems { report(problem, machines) }
    }
    // Projections are checked even if the composites' events are invalid, since the nodes of a
    // composite do not depend on its events.
    var unsynchronized = topology
    for index in unsynchronized.composites.indices {
      unsynchronized.composites[index].synchronize = []
    }
    let parts = try? TopologyComposites(unsynchronized, machines: machines)
    for composite in topology.composites { checkProjection(of: composite, in: parts) }
  }

  private mutating func report(
    _ problem: CompositionError.Problem, _ machines: [String: MachineDescription]
  ) {
    guard var diagnostic = problem.diagnostic(in: topology, source) else { return }
    if case .tooFewParticipants([], let event, let composite) = problem {
      let acceptingMachines = topology.memberNames(of: composite).sorted().compactMap {
        machines[$0]
      }
      diagnostic.message += Suggestion.among(
        acceptingMachines.flatMap(\.alphabet), like: event, verb: "they accept")
    }
    diagnostics.append(diagnostic)
  }

  /// Checks that a single event value suits all participants of a synchronized event.
  ///
  /// The participant that declares the most fields must declare all fields of the other
  /// participants.
  private mutating func checkPayloads(of vector: SyncVector, in composites: TopologyComposites) {
    let fullEvent = composites.event(of: vector)
    for name in vector.participants {
      guard let own = composites.machines[name]?.events.first(where: { $0.name == vector.event }),
        !own.fields.allSatisfy(fullEvent.fields.contains)
      else { continue }
      let other = vector.participants.first {
        composites.machines[$0]?.events.contains(fullEvent) == true
      }
      report(
        .unlikePayloads, at: topology.path(ofParticipant: name, vector.event, in: vector.composite),
        "composite '\(vector.composite)', event '\(vector.event)': different fields: participant "
          + "'\(name)' declares \(own.wording), and '\(other ?? "")' declares \(fullEvent.wording); "
          + "use the same field names and types in both machines")
    }
  }

  /// Reports asynchronous transitions of participants. Such a transition would run before it is
  /// known whether all participants accept the event.
  private mutating func checkTransitions(of vector: SyncVector, in composites: TopologyComposites) {
    for name in vector.participants {
      guard let machine = composites.machines[name] else { continue }
      if topology.node(name)?.key != nil, machine.selfContained?[vector.event] != nil {
        report(
          .asynchronousParticipant,
          at: topology.path(ofParticipant: name, vector.event, in: vector.composite),
          "composite '\(vector.composite)', event '\(vector.event)': participant '\(name)' has an "
            + "asynchronous transition, and a node with a 'key' refuses synchronized events with such "
            + "transitions; enter a state synchronously and do the slow work in an effect of that "
            + "state")
        continue
      }
      let isAll = machine.asynchronous?.contains(vector.event) == true
      guard isAll || machine.partlyAsynchronous?.contains(vector.event) == true else { continue }
      report(
        .asynchronousParticipant, isAll ? .error : .warning,
        at: topology.path(ofParticipant: name, vector.event, in: vector.composite),
        "composite '\(vector.composite)', event '\(vector.event)': participant '\(name)' has "
          + (isAll
            ? "an asynchronous transition"
            : "asynchronous transitions in some states")
          + ", as models, features and closures with 'await' have; the transition would run before "
          + "the other participants have accepted the event, so the event is "
          + "\(isAll ? "never" : "not") accepted\(isAll ? "" : " there"). If the transition "
          + "changes only the machine's own state, declare 'static var selfContained: "
          + "SelfContainedEvents<Event> { .all(within: .seconds(1)) }' in the model or feature, "
          + "or '.selfContained(within: .seconds(1))' after the closing brace of the 'On'. "
          + "Otherwise enter a state synchronously and do the slow work in an effect or feedback "
          + "of that state, or list participants without '\(name)'")
    }
  }

  private mutating func checkPrograms(of plan: ConflictClassPlan) {
    for composite in plan.composites.dropFirst() {
      guard let program = topology.composite(composite.name).flatMap(topology.program(of:)),
        program != plan.program
      else { continue }
      report(
        .unlikePrograms, at: ["composites", composite.name, "program"],
        "composite '\(composite.name)' shares participants, and therefore a process, with "
          + "composite '\(plan.name)', but their programs differ: '\(program)' and "
          + "'\(plan.program)'; use one program for both composites")
    }
  }

  /// Reports synchronized events that effects cannot emit: events from effects of nodes with a
  /// `key`, and events that several composites synchronize.
  private mutating func checkEffects(in composites: TopologyComposites) {
    for node in topology.nodes {
      guard let machine = composites.machines[node.name], !machine.outputs.isEmpty else { continue }
      for event in machine.alphabet {
        let vectors = composites.composition.vectors(of: node.name, event: event)
        if node.key != nil, !vectors.isEmpty,
          machine.effects?.contains(where: { $0.producedEvents.contains(event) }) == true
        {
          report(
            .synchronizedEvent, at: ["nodes", node.name],
            "node '\(node.name)': an effect sends '\(event)', which is a synchronized event of "
              + "composite \(Self.listText(vectors)), and effects of a node with a 'key' cannot send such "
              + "events; send the event to the composite through a pipe")
        }
        guard Set(vectors.map(\.composite)).count > 1, machine.mayEmit(event) else { continue }
        report(
          .ambiguousEvent, .warning, at: ["nodes", node.name],
          "node '\(node.name)' accepts '\(event)' through composite \(Self.listText(vectors)): an "
            + "effect that sends '\(event)' ends the node, because the composite is ambiguous; "
            + "send the event to the intended composite through a pipe with capacity 2 or more")
      }
    }
  }

  // MARK: Checks of projections

  private mutating func checkProjection(
    of composite: CompositeSpecification, in parts: TopologyComposites?
  ) {
    guard let name = composite.projection, let program = topology.program(of: composite),
      let description = descriptions.programs[program]
    else { return }
    let path = ["composites", composite.name, "projection"]
    let owner = "composite '\(composite.name)'"
    guard let projection = description.composite(name) else {
      report(
        .unknownProjection, at: path,
        "\(owner): program '\(program)' has no composite state '\(name)'"
          + Suggestion.among(description.composites.map(\.name), like: name))
      return
    }
    guard let parts, parts.composition.has(composite.name) else { return }
    let nodes = parts.composition.machines(of: composite.name)
    let types = projection.components.map(\.type).joined(separator: ", ")
    guard nodes.count == projection.components.count else {
      report(
        .unlikeProjection, at: path,
        "\(owner): projection '\(name)' takes \(projection.components.count) states (\(types)), "
          + "but the composite has \(nodes.count) nodes (\(nodes.joined(separator: ", "))); list "
          + "the components that the projection takes")
      return
    }
    for (index, (node, component)) in zip(nodes, projection.components).enumerated() {
      guard let machine = parts.machines[node], machine.states != component.states else {
        continue
      }
      report(
        .unlikeProjection, at: path,
        "\(owner): projection '\(name)' takes \(component.type) as its state \(index + 1), but "
          + "node '\(node)' with machine '\(machine.machine)' has other states; list the "
          + "components in the order of (\(types))")
    }
  }

  // MARK: Checks of pipes

  /// Reports a pipe that delivers a synchronized event directly to one component.
  mutating func checkSynchronized(_ pipe: PipeSpecification, at path: [String]) {
    guard let composites, let node = topology.node(pipe.receiver), node.constant == nil else {
      return
    }
    func vectors(of event: String) -> [SyncVector] {
      composites.composition.vectors(of: node.name, event: event)
    }
    if let event = pipe.eventTemplate?.caseName {
      let found = vectors(of: event)
      guard !found.isEmpty else { return }
      report(
        .synchronizedEvent, at: path + ["to"],
        "pipe '\(pipe.name)': node '\(node.name)' accepts '\(event)' only as a synchronized event; "
          + "send the event to composite " + Self.listText(found))
    } else if let port = outPort(of: pipe) {
      let events = (port.sentEvents ?? port.events.map(\.name)).filter { !vectors(of: $0).isEmpty }
      guard !events.isEmpty else { return }
      // If the machine does not declare which events the port sends, the port perhaps sends none of
      // these events.
      let isCertain = port.sentEvents != nil || events.count == port.events.count
      let isAll = events.count == (port.sentEvents?.count ?? port.events.count)
      report(
        .synchronizedEvent, isCertain ? .error : .warning, at: path + ["to"],
        "pipe '\(pipe.name)': out-port '\(port.name)' of node '\(pipe.sender)' "
          + "\(isCertain ? "sends" : "can send") "
          + "\(events.map { "'\($0)'" }.joined(separator: ", ")), which node '\(node.name)' "
          + "accepts only as synchronized events; send these events to composite "
          + Self.listText(events.flatMap { vectors(of: $0) })
          + (isCertain && !isAll ? ", from a separate port" : ""))
    }
  }

  func outPort(of pipe: PipeSpecification) -> PortDescription? {
    topology.node(pipe.sender).flatMap(machine(of:))?.outPorts.first { $0.name == pipe.outPort }
  }

  private static func listText(_ vectors: [SyncVector]) -> String {
    Set(vectors.map(\.composite)).sorted().map { "'\($0)'" }.joined(separator: " or ")
  }

  /// Returns the synchronized events of a composite; `nil` if the composite is unknown.
  func synchronizedEvents(of composite: String) -> [CaseDescription]? {
    guard let composites, composites.composition.has(composite) else { return nil }
    return composites.composition.vectors(requestedFrom: composite).map(composites.event(of:))
  }
}

extension MachineDescription {
  /// Returns whether an effect can emit the event. An effect that declares no events can emit any
  /// event.
  fileprivate func mayEmit(_ event: String) -> Bool {
    outputs.contains { output in
      if unmappedOutputs?.contains(output.name) == true { return false }
      return effects?.first { $0.name == output.name }?.producedEvents.contains(event) ?? true
    }
  }
}

extension Composition {
  fileprivate func has(_ composite: String) -> Bool {
    composites.contains { $0.name == composite }
  }
}

/// Checks of embedded coordinators.
extension TopologyChecker {
  /// Checks that the carrier node can run the coordinator of a conflict class.
  mutating func checkCarrier(of plan: ConflictClassPlan) {
    let named = plan.composites.compactMap { topology.composite($0.name) }
      .filter { $0.within != nil }
    guard let first = named.first, let host = first.within,
      let node = topology.node(host), node.constant == nil
    else { return }
    for composite in named.dropFirst() where composite.within != host {
      report(
        .badHost, at: ["composites", composite.name, "within"],
        "composite '\(composite.name)' shares participants, and therefore a coordinator, with "
          + "composite '\(first.name)', but 'within' names different nodes: "
          + "'\(composite.within ?? "")' and '\(host)'; name one node for both composites")
    }
    guard let problem = blocker(to: node, of: plan) else { return }
    report(
      .badHost, at: ["composites", first.name, "within"], "composite '\(first.name)': \(problem)")
  }

  private func blocker(to node: NodeSpecification, of plan: ConflictClassPlan) -> String? {
    guard plan.participants.contains(node.name) else {
      return "node '\(node.name)' does not participate in its events"
        + Suggestion.among(plan.participants, like: node.name, verb: "participants are")
    }
    guard let program = topology.program(of: node) else { return nil }
    if program != plan.program {
      return "program '\(plan.program)' coordinates the composite, but node '\(node.name)' runs "
        + "program '\(program)'; write 'program: \(program)' for the composite, or remove "
        + "'within'"
    }
    if node.restart.mode == .never {
      return "node '\(node.name)' is never restarted ('restart: { policy: never }'), and the other "
        + "participants would wait forever for the coordinator in its process; set another "
        + "restart policy, or name another node"
    }
    guard descriptions.programs[program]?.embedsCoordinators == false else { return nil }
    return "program '\(program)' was built with a version of PipeRuntime that does not support "
      + "embedded coordinators; rebuild the program, or remove 'within'"
  }
}
