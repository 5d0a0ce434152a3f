/// Composites of machines, checked, and flattened into sync vectors over the machines themselves.
///
/// Composites may overlap: a machine can be a component of several, and take one event through each
/// of them with other participants. Which of them is meant, the caller says by the composite's name.
public struct Composition: Sendable {
  /// The machines, as given.
  public let machines: [String]
  /// The composites, as given.
  public let composites: [CompositeDeclaration]
  /// Who takes which events together.
  ///
  /// Where a composite's event is synchronized again by a composite around it, there is one vector,
  /// that of the outer composite.
  public let vectors: [SyncVector]
  private let leaves: [String: [String]]

  /// Checks composites.
  /// - Parameters:
  ///   - composites: The composites, in any order.
  ///   - alphabets: The machines, each with the names of the events that it takes in some state.
  /// - Throws: ``CompositionError`` with everything that is wrong.
  public init(
    _ composites: [CompositeDeclaration],
    of alphabets: KeyValuePairs<String, [String]>
  ) throws(CompositionError) {
    try self.init(composites, machines: alphabets.map { ($0.key, $0.value) })
  }

  package init(
    _ composites: [CompositeDeclaration], machines: [(name: String, alphabet: [String])]
  ) throws(CompositionError) {
    var flattening = Flattening(composites: composites, machines: machines)
    vectors = try flattening.flatten()
    leaves = flattening.leaves
    self.machines = machines.map(\.name)
    self.composites = composites
  }

  /// What is wrong with composites whatever their machines are.
  package static func structuralProblems(
    of composites: [CompositeDeclaration], machines: [String]
  ) -> [CompositionError.Problem] {
    var flattening = Flattening(
      composites: composites, machines: machines.map { (name: $0, alphabet: []) })
    flattening.checkStructure()
    return flattening.problems
  }

  /// The machines that a composite consists of, without repetition, in the order of its components.
  public func machines(of composite: String) -> [String] { leaves[composite] ?? [] }

  /// The vectors that have this machine and this event.
  public func vectors(of machine: String, event: String) -> [SyncVector] {
    vectors.filter { $0.event == event && $0.participants.contains(machine) }
  }

  /// The vector of an event that a caller asks a composite for.
  ///
  /// An event may also be asked for through a composite around the one that synchronizes it, as long
  /// as that leaves no choice.
  /// - Throws: ``RoutingError`` where there is none, or more than one.
  public func vector(_ event: String, of composite: String) throws(RoutingError) -> SyncVector {
    guard let specification = composites.first(where: { $0.name == composite }) else {
      throw .unknownComposite(composite)
    }
    let inside = contents(of: specification)
    let found = vectors.filter { $0.event == event && inside.contains($0.composite) }
    if found.count == 1 { return found[0] }
    if let own = found.first(where: { $0.composite == composite }) { return own }
    if found.isEmpty {
      let around = vectors.first { vector in
        vector.event == event
          && composites.contains { outer in
            outer.name == vector.composite && contents(of: outer).contains(composite)
          }
      }
      if let around { throw .synchronizedOutside(event, composite: around.composite) }
      throw .notSynchronized(event, composite: composite)
    }
    throw .ambiguous(event, composites: found.map(\.composite))
  }

  /// The composite and all composites in it.
  private func contents(of composite: CompositeDeclaration) -> Set<String> {
    var all: Set = [composite.name]
    for inner in composites where composite.components.contains(inner.name) {
      all.formUnion(contents(of: inner))
    }
    return all
  }

  /// The composites in groups that share no participant: each group has one coordinator.
  public var conflictClasses: [[String]] {
    var groups: [(composites: [String], participants: Set<String>)] = []
    for composite in composites {
      // Also what it may be asked for on behalf of a composite in it.
      let inside = contents(of: composite)
      let machines = machines(of: composite.name)
      let own = vectors.filter { vector in
        inside.contains(vector.composite)
          // Its state must not be shown while some of these have moved and others not.
          || vector.participants.count(where: machines.contains) > 1
      }.flatMap(\.participants)
      var merged = (
        composites: [composite.name],
        participants: Set(own.isEmpty ? machines : own)
      )
      groups.removeAll { group in
        guard !group.participants.isDisjoint(with: merged.participants) else { return false }
        merged.composites = group.composites + merged.composites
        merged.participants.formUnion(group.participants)
        return true
      }
      groups.append(merged)
    }
    return groups.map(\.composites)
  }
}

/// Why an event cannot be taken where it was sent.
public enum RoutingError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There is no such component.
  case unknownComponent(String)
  /// There is no such composite.
  case unknownComposite(String)
  /// The composite does not synchronize the event: it goes to a component.
  case notSynchronized(String, composite: String)
  /// Several composites in the one asked synchronize the event, so one of them has to be asked.
  case ambiguous(String, composites: [String])
  /// The event is taken only through the composite of this name.
  case synchronizedOutside(String, composite: String)
  /// The event is not one of the component's.
  case noEvent(SynchronizedEventError, component: String)

  /// A sentence that tells it.
  public var description: String {
    switch self {
    case .unknownComponent(let name): "there is no component '\(name)'"
    case .unknownComposite(let name): "there is no composite '\(name)'"
    case .notSynchronized(let event, let composite):
      "composite '\(composite)' does not synchronize '\(event)'; send it to one of its components"
    case .ambiguous(let event, let composites):
      """
      '\(event)' is synchronized by \(composites.map { "'\($0)'" }.joined(separator: ", ")); send \
      it to one of them
      """
    case .synchronizedOutside(let event, let composite):
      "'\(event)' is synchronized; send it to composite '\(composite)'"
    case .noEvent(let error, let component): "component '\(component)': \(error)"
    }
  }
}
