import PipeMachines
import PipeSupport
import PipeWire

/// The composites of a topology, with the machines that its programs describe.
package struct TopologyComposites: Sendable {
  package let topology: Topology
  /// Who takes what together.
  package let composition: Composition
  /// What the machine of each node tells of itself.
  package let machines: [String: MachineDescription]

  /// Composes what can be: a composite of a node that is not described is left out.
  /// - Parameter machines: By node.
  /// - Throws: ``CompositionError`` with everything that is wrong with the composites.
  package init(
    _ topology: Topology, machines: [String: MachineDescription]
  ) throws(CompositionError) {
    let nodes = topology.nodes.filter { $0.constant == nil }
    let alphabets = nodes.map { (name: $0.name, alphabet: machines[$0.name]?.alphabet ?? []) }
    var described = topology.composites
    // A composite of one that is left out is left out as well.
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

  /// What a synchronized event carries: the fields of the participant that has the most.
  package func event(of vector: SyncVector) -> CaseDescription {
    let cases = vector.participants.compactMap { name in
      machines[name]?.events.first { $0.name == vector.event }
    }
    return cases.max { $0.fields.count < $1.fields.count } ?? CaseDescription(name: vector.event)
  }

  /// Why a composite cannot be asked for an event, in a sentence.
  package func wording(of error: RoutingError) -> String {
    guard case .notSynchronized(let event, let composite) = error else { return error.description }
    let takers = composition.machines(of: composite)
      .filter { machines[$0]?.alphabet.contains(event) == true }
    guard !takers.isEmpty else {
      let own = composition.vectors(askedOf: composite).map(\.event)
      return "composite '\(composite)' has no event '\(event)'"
        + Suggestion.among(own, like: event, verb: "it synchronizes")
    }
    let list = takers.map { "'\($0)'" }.joined(separator: " or ")
    return "composite '\(composite)' does not synchronize '\(event)'; send it to \(list)"
  }

  /// The one node of a composite that takes an event, and takes it by itself; `nil` where there is none, or
  /// several have the event, or it is synchronized.
  package func owner(of event: String, in composite: String) -> String? {
    let takers = composition.machines(of: composite)
      .filter { machines[$0]?.alphabet.contains(event) == true }
    guard takers.count == 1, composition.vectors(of: takers[0], event: event).isEmpty else {
      return nil
    }
    return takers[0]
  }

  // MARK: Plans

  /// The conflict classes in the order of the file, each with all that its process needs to know.
  package var plans: [ConflictClassPlan] {
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
    let vectors = composition.vectors(askedOf: composite.name)
    var refusals: [String: String] = [:]
    for event in Set(nodes.flatMap { machines[$0]?.alphabet ?? [] }) {
      do throws(RoutingError) {
        _ = try composition.vector(event, of: composite.name)
      } catch {
        refusals[event] = wording(of: error)
      }
    }
    var own: [String: String] = [:]
    for event in refusals.keys { own[event] = owner(of: event, in: composite.name) }
    return CompositePlan(
      name: composite.name, components: composite.components, nodes: nodes, vectors: vectors,
      events: vectors.map(event(of:)), refusals: refusals, own: own, limits: limits(of: vectors),
      projection: composite.projection)
  }

  /// How long asynchronous transitions may take, by event; `nil` where there are none.
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
  /// The vectors that a caller may ask a composite for, one for each event, sorted by event.
  package func vectors(askedOf composite: String) -> [SyncVector] {
    Set(vectors.map(\.event)).sorted().compactMap { try? vector($0, of: composite) }
  }
}

/// Nodes that take some events together, and all others each for itself. Source: DESIGN.md 3.3.
public struct CompositeSpecification: Sendable {
  /// The name; unique among nodes, composites and monitors.
  public var name: String
  /// The nodes, and composites, that it is made of.
  public var components: [String]
  /// The events that components take together, in the order of the file, which means nothing.
  public var synchronize: [Synchronization]
  /// A composite state that the program registers, or `nil` for the plain tuple.
  public var projection: String?
  /// The executable that coordinates it; `nil` takes the topology's.
  public var program: String?
  /// The participant in whose process it is coordinated; `nil` for a process of its own.
  public var within: String?

  /// Makes a composite.
  public init(
    name: String, components: [String], synchronize: [Synchronization] = [],
    projection: String? = nil, program: String? = nil, within: String? = nil
  ) {
    self.within = within
    self.name = name
    self.components = components
    self.synchronize = synchronize
    self.projection = projection
    self.program = program
  }

  /// The composite without what only a topology has.
  public var declaration: CompositeDeclaration {
    CompositeDeclaration(name, components: components, synchronize: synchronize)
  }
}

extension CompositeSpecification: Hashable {
  /// Equal in all but the order of the events, which are a map in the file.
  public static func == (left: Self, right: Self) -> Bool {
    left.name == right.name && left.components == right.components
      && left.projection == right.projection && left.program == right.program
      && left.within == right.within
      && left.synchronize.sorted { $0.event < $1.event }
        == right.synchronize.sorted { $0.event < $1.event }
  }

  /// Hashes the name, of which a topology has one.
  public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension CompositionError.Problem {
  /// What to tell of it at its place in the file; `nil` for what the file's own form has told.
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
        "composite '\(composite)': there is no node or composite '\(name)'"
          + Suggestion.among(known, like: name, verb: "the topology has"))
    case .cycle(let names):
      return source.diagnostic(
        .compositeCycle, at: topology.path(ofComponent: names[1], in: names[0]),
        "\(self); take one out of the other's components")
    case .unknownParticipant(let name, let event, let composite, let components):
      return source.diagnostic(
        .unknownParticipant, at: topology.path(ofParticipant: name, event, in: composite),
        "composite '\(composite)', event '\(event)': '\(name)' is not one of its components"
          + Suggestion.among(components, like: name, verb: "they are"))
    case .notInAlphabet(let name, let event, let composite, let alphabet):
      return source.diagnostic(
        .notInAlphabet, at: topology.path(ofParticipant: name, event, in: composite),
        "composite '\(composite)', event '\(event)': participant '\(name)' takes it in no state"
          + Suggestion.among(alphabet, like: event, verb: "it takes"))
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
      code, at: source.mark(ofKey: ["composites", composite, "synchronize", event]), description)
  }
}

extension Topology {
  /// Where a composite names a component.
  func path(ofComponent name: String, in composite: String) -> [String] {
    let path = ["composites", composite, "components"]
    let index = self.composite(composite)?.components.firstIndex(of: name)
    return index.map { path + [String($0)] } ?? path
  }

  /// Where a composite names a participant of an event, or else the event.
  func path(ofParticipant name: String, _ event: String, in composite: String) -> [String] {
    let path = ["composites", composite, "synchronize", event]
    let index = self.composite(composite)?.synchronize.first { $0.event == event }?
      .participants?.firstIndex(of: name)
    return index.map { path + [String($0)] } ?? path
  }
}
