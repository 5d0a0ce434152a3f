import PipeMachines
import PipeSupport
import PipeWire

/// The composites of a topology, with the descriptions of their machines.
package struct TopologyComposites: Sendable {
  package let topology: Topology
  /// The synchronized events and their participants.
  package let composition: Composition
  /// The descriptions of the machines, by node.
  package let machines: [String: MachineDescription]

  /// Makes the composites whose nodes all have a description, and omits the other composites.
  /// - Parameter machines: The descriptions, by node.
  /// - Throws: ``CompositionError`` with all errors of the composites.
  package init(
    _ topology: Topology, machines: [String: MachineDescription]
  ) throws(CompositionError) {
    let nodes = topology.nodes.filter { $0.constant == nil }
    let alphabets = nodes.map { (name: $0.name, alphabet: machines[$0.name]?.alphabet ?? []) }
    var described = topology.composites
    // If a composite is omitted, composites that contain it are omitted, too.
    while let index = described.firstIndex(where: { composite in
      composite.components.contains { name in
        topology.composite(name) == nil
          ? machines[name] == nil : !described.contains { $0.name == name }
      }
    }) {
      described.remove(at: index)
    }
    composition = try Composition(described.map(\.declaration), machines: alphabets)
    self.topology = topology
    self.machines = machines
  }

  /// Returns the description of a synchronized event. Of all participants' declarations, this is
  /// the declaration with the most fields.
  package func event(of vector: SyncVector) -> CaseDescription {
    let cases = vector.participants.compactMap { name in
      machines[name]?.events.first { $0.name == vector.event }
    }
    return cases.max { $0.fields.count < $1.fields.count } ?? CaseDescription(name: vector.event)
  }

  /// Returns a sentence that says why a composite cannot accept an event.
  package func wording(of error: RoutingError) -> String {
    guard case .notSynchronized(let event, let composite) = error else { return error.description }
    let acceptingNodes = composition.machines(of: composite)
      .filter { machines[$0]?.alphabet.contains(event) == true }
    guard !acceptingNodes.isEmpty else {
      let own = composition.vectors(requestedFrom: composite).map(\.event)
      return "composite '\(composite)' has no event '\(event)'"
        + Suggestion.among(own, like: event, verb: "it synchronizes")
    }
    let list = acceptingNodes.map { "'\($0)'" }.joined(separator: " or ")
    return "composite '\(composite)' does not synchronize '\(event)'; send it to \(list)"
  }

  /// Returns the node of a composite that accepts an event on its own.
  ///
  /// Returns `nil` if the event is synchronized, or if no node or several nodes accept it.
  package func owner(of event: String, in composite: String) -> String? {
    let acceptingNodes = composition.machines(of: composite)
      .filter { machines[$0]?.alphabet.contains(event) == true }
    guard acceptingNodes.count == 1,
      composition.vectors(of: acceptingNodes[0], event: event).isEmpty
    else {
      return nil
    }
    return acceptingNodes[0]
  }

  // MARK: Plans of the coordinators

  /// The plans of the coordinators, one for each conflict class, in file order.
  package var coordinatorPlans: [ConflictClassPlan] {
    let order = composition.composites.map(\.name)
    return composition.conflictClasses.map { names in
      plan(of: order.filter(names.contains))
    }.sorted { order.firstIndex(of: $0.name)! < order.firstIndex(of: $1.name)! }
  }

  private func plan(of names: [String]) -> ConflictClassPlan {
    let composites = names.compactMap(topology.composite)
    let plans = composites.map(plan(of:))
    let nodes = Set(plans.flatMap(\.nodes))
    return ConflictClassPlan(
      name: names[0], host: composites.lazy.compactMap(\.within).first,
      program: composites.lazy.compactMap(topology.program(of:)).first ?? "",
      durability: names.map(topology.durability(of:)).max() ?? .standard, composites: plans,
      components: topology.nodes.filter { nodes.contains($0.name) }.map { node in
        ComponentPlan(
          node: node.name, machine: node.machine ?? "",
          initial: machines[node.name]?.initial ?? .null)
      })
  }

  private func plan(of composite: CompositeSpecification) -> CompositePlan {
    let nodes = composition.machines(of: composite.name)
    let vectors = composition.vectors(requestedFrom: composite.name)
    var refusals: [String: String] = [:]
    for event in Set(nodes.flatMap { machines[$0]?.alphabet ?? [] }) {
      do throws(RoutingError) {
        _ = try composition.vector(event, of: composite.name)
      } catch {
        refusals[event] = wording(of: error)
      }
    }
    var ownEvents: [String: String] = [:]
    for event in refusals.keys { ownEvents[event] = owner(of: event, in: composite.name) }
    return CompositePlan(
      name: composite.name, components: composite.components, nodes: nodes, vectors: vectors,
      events: vectors.map(event(of:)), refusalReasonsByEvent: refusals, nodesByOwnEvent: ownEvents,
      evaluationLimitsByEvent: limits(of: vectors),
      projection: composite.projection, key: composite.key)
  }

  /// Returns the time limits of participants' asynchronous transitions, by event; `nil` if there
  /// are no such limits. Unit: milliseconds.
  private func limits(of vectors: [SyncVector]) -> [String: Int64]? {
    var limits: [String: Int64] = [:]
    for vector in vectors {
      limits[vector.event] =
        vector.participants.compactMap { machines[$0]?.selfContained?[vector.event] }.max()
    }
    return limits.isEmpty ? nil : limits
  }
}

extension Composition {
  /// Returns the synchronization vectors that clients can request from a composite, sorted by
  /// event. A synchronization vector is an event with its participants. Each event has one vector.
  package func vectors(requestedFrom composite: String) -> [SyncVector] {
    Set(vectors.map(\.event)).sorted().compactMap { try? vector($0, of: composite) }
  }
}

/// A composite of a topology: nodes that accept some events together, and all other events
/// separately. See docs/TOPOLOGY.md.
public struct CompositeSpecification: Sendable {
  /// The name; unique among nodes, composites and monitors.
  public var name: String
  /// The components: names of nodes and of other composites.
  public var components: [String]
  /// The event field that contains the key of the participating instances; `nil` if the nodes have
  /// one machine each.
  public var key: String?
  /// The synchronized events, in file order. The order has no meaning.
  public var synchronize: [Synchronization]
  /// The registered name of the projection; `nil` if the composite's state is the tuple of its
  /// nodes' states.
  public var projection: String?
  /// The executable that runs the coordinator; `nil` uses the topology's executable.
  public var program: String?
  /// The participant that carries the embedded coordinator; `nil` for a coordinator with its own process.
  public var within: String?
  /// The names that the composite had in former topology files.
  public var was: [String]

  /// Makes a composite.
  public init(
    name: String, components: [String], synchronize: [Synchronization] = [],
    projection: String? = nil, program: String? = nil, within: String? = nil, key: String? = nil,
    was: [String] = []
  ) {
    self.was = was
    self.within = within
    self.key = key
    self.name = name
    self.components = components
    self.synchronize = synchronize
    self.projection = projection
    self.program = program
  }

  /// The part of the composite that `PipeMachines` requires: its name, components and events.
  public var declaration: CompositeDeclaration {
    CompositeDeclaration(name, components: components, synchronize: synchronize)
  }
}

extension CompositeSpecification: Hashable {
  /// Returns whether two composites are equal. The order of their events does not matter, since
  /// events are a mapping in the file.
  public static func == (left: Self, right: Self) -> Bool {
    left.name == right.name && left.components == right.components
      && left.projection == right.projection && left.program == right.program
      && left.within == right.within && left.key == right.key && left.was == right.was
      && left.synchronize.sorted { $0.event < $1.event }
        == right.synchronize.sorted { $0.event < $1.event }
  }

  /// Hashes only the name, which is unique in a topology.
  public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension CompositionError.Problem {
  /// Returns the diagnostic for the problem; `nil` if the reader has already reported the problem.
  func diagnostic(in topology: Topology, _ source: SourceMap) -> Diagnostic? {
    switch self {
    case .duplicateName, .repeatedComponent, .repeatedEvent: return nil
    case .noComponents(let composite):
      return source.diagnostic(
        .badValue, at: ["composites", composite, "components"],
        "\(self); list two nodes or more")
    case .unknownComponent(let name, let composite, let known):
      return source.diagnostic(
        .unknownNode, at: topology.path(ofComponent: name, in: composite),
        "composite '\(composite)': no such node or composite '\(name)'"
          + Suggestion.among(known, like: name, verb: "the topology has"))
    case .cycle(let names):
      return source.diagnostic(
        .compositeCycle, at: topology.path(ofComponent: names[1], in: names[0]),
        "\(self); remove one composite from the components of the other")
    case .unknownParticipant(let name, let event, let composite, let components):
      return source.diagnostic(
        .unknownParticipant, at: topology.path(ofParticipant: name, event, in: composite),
        "composite '\(composite)', event '\(event)': '\(name)' is not a component of the composite"
          + Suggestion.among(components, like: name, verb: "the components are"))
    case .notInAlphabet(let name, let event, let composite, let alphabet):
      return source.diagnostic(
        .notInAlphabet, at: topology.path(ofParticipant: name, event, in: composite),
        "composite '\(composite)', event '\(event)': participant '\(name)' does not accept the "
          + "event in any state"
          + Suggestion.among(alphabet, like: event, verb: "it accepts"))
    case .tooFewParticipants(_, let event, let composite):
      return at(event, of: composite, .tooFewParticipants, source)
    case .alternatives(_, _, let event, let composite):
      return at(event, of: composite, .ambiguousEvent, source)
    }
  }

  private func at(
    _ event: String, of composite: String, _ code: Diagnostic.Code, _ source: SourceMap
  ) -> Diagnostic {
    source.diagnostic(
      code, at: source.position(ofKey: ["composites", composite, "synchronize", event]), description
    )
  }
}

extension Topology {
  /// Returns the path of a component in the composite's list of components.
  func path(ofComponent name: String, in composite: String) -> [String] {
    let path = ["composites", composite, "components"]
    let index = self.composite(composite)?.components.firstIndex(of: name)
    return index.map { path + [String($0)] } ?? path
  }

  /// Returns the path of a participant in the participant list of an event. If the list does not
  /// contain the participant, returns the path of the event.
  func path(ofParticipant name: String, _ event: String, in composite: String) -> [String] {
    let path = ["composites", composite, "synchronize", event]
    let index = self.composite(composite)?.synchronize.first { $0.event == event }?
      .participants?.firstIndex(of: name)
    return index.map { path + [String($0)] } ?? path
  }
}
