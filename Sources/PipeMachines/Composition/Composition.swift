/// Composites of machines, checked and flattened into sync vectors over the machines themselves.
///
/// Composites may overlap: a machine can be a component of several composites, and accept the same
/// event through each composite with different participants. The caller selects the composite by
/// its name.
public struct Composition: Sendable {
  /// The names of the machines, in the given order.
  public let machines: [String]
  /// The declarations of the composites, in the given order.
  public let composites: [CompositeDeclaration]
  /// The sync vectors. Each vector lists the machines that accept an event together.
  ///
  /// If an outer composite also synchronizes an event of an inner composite, only the vector of the
  /// outer composite exists.
  public let vectors: [SyncVector]
  private let machinesByComposite: [String: [String]]

  /// Checks the composites, and resolves them into sync vectors.
  /// - Parameters:
  ///   - composites: The composites, in any order.
  ///   - alphabets: The machines, each with the names of the events that it accepts in at least one
  ///     state.
  /// - Throws: ``CompositionError`` with all errors.
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
    machinesByComposite = flattening.machinesByComposite
    self.machines = machines.map(\.name)
    self.composites = composites
  }

  /// Returns the errors of composites that can be found without the machines' alphabets.
  package static func structuralErrors(
    of composites: [CompositeDeclaration], machines: [String]
  ) -> [CompositionError.Problem] {
    var flattening = Flattening(
      composites: composites, machines: machines.map { (name: $0, alphabet: []) })
    flattening.checkStructure()
    return flattening.problems
  }

  /// Returns the machines of a composite, without duplicates, in the order of its components.
  /// Returns no machines if the composite is unknown.
  public func machines(of composite: String) -> [String] { machinesByComposite[composite] ?? [] }

  /// Returns the vectors of an event in which a machine participates.
  public func vectors(of machine: String, event: String) -> [SyncVector] {
    vectors.filter { $0.event == event && $0.participants.contains(machine) }
  }

  /// Returns the sync vector of an event that is sent to a composite.
  ///
  /// The vector can belong to `composite` or to a composite inside it. If several of these
  /// composites synchronize the event, the vector of `composite` itself is returned.
  /// - Throws: ``RoutingError`` if there is no such vector, or if several composites inside
  ///   `composite` synchronize the event, but `composite` itself does not.
  public func vector(_ event: String, of composite: String) throws(RoutingError) -> SyncVector {
    guard let specification = composites.first(where: { $0.name == composite }) else {
      throw .unknownComposite(composite)
    }
    let inside = nestedComposites(of: specification)
    let found = vectors.filter { $0.event == event && inside.contains($0.composite) }
    if found.count == 1 { return found[0] }
    if let own = found.first(where: { $0.composite == composite }) { return own }
    if found.isEmpty {
      let around = vectors.first { vector in
        vector.event == event
          && composites.contains { outer in
            outer.name == vector.composite && nestedComposites(of: outer).contains(composite)
          }
      }
      if let around { throw .requiresComposite(event, composite: around.composite) }
      throw .notSynchronized(event, composite: composite)
    }
    throw .ambiguous(event, composites: found.map(\.composite))
  }

  /// Returns the names of the composite and of all composites inside it.
  private func nestedComposites(of composite: CompositeDeclaration) -> Set<String> {
    var all: Set = [composite.name]
    for inner in composites where composite.components.contains(inner.name) {
      all.formUnion(nestedComposites(of: inner))
    }
    return all
  }

  /// The names of the composites, grouped so that no two groups share a participant. Each group has
  /// one coordinator.
  public var conflictClasses: [[String]] {
    var groups: [(composites: [String], participants: Set<String>)] = []
    for composite in composites {
      // Includes the vectors of inner composites, because a caller can send the events of inner
      // composites to this composite.
      let inside = nestedComposites(of: composite)
      let machines = machines(of: composite.name)
      let own = vectors.filter { vector in
        inside.contains(vector.composite)
          // Also includes each vector in which two or more of the composite's machines participate.
          // No process may see a state of the composite in which only some of these machines have
          // changed.
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

/// The reason why an event cannot be delivered to the component or composite that it was sent to.
public enum RoutingError: Error, Hashable, Sendable, CustomStringConvertible {
  /// No component has this name.
  case unknownComponent(String)
  /// No composite has this name.
  case unknownComposite(String)
  /// The composite does not synchronize the event. The event must be sent to a component.
  case notSynchronized(String, composite: String)
  /// Several composites inside the given composite synchronize the event. The event must be sent to
  /// one of these composites.
  case ambiguous(String, composites: [String])
  /// The event is accepted only through the composite with this name.
  case requiresComposite(String, composite: String)
  /// The event is not an event of the component.
  case noEvent(SynchronizedEventError, component: String)

  /// A message that describes the error.
  public var description: String {
    switch self {
    case .unknownComponent(let name): "no such component '\(name)'"
    case .unknownComposite(let name): "no such composite '\(name)'"
    case .notSynchronized(let event, let composite):
      "composite '\(composite)' does not synchronize '\(event)'; send the event to a component"
    case .ambiguous(let event, let composites):
      """
      event '\(event)' is synchronized by composites \
      \(composites.map { "'\($0)'" }.joined(separator: ", ")); send the event to one of these \
      composites
      """
    case .requiresComposite(let event, let composite):
      "'\(event)' is synchronized; send it to composite '\(composite)'"
    case .noEvent(let error, let component): "component '\(component)': \(error)"
    }
  }
}

/// The declaration of a composite: its components, and the events that the components accept
/// together.
///
/// A declaration contains only names, from code or from a topology file. ``Composition`` checks
/// these names.
public struct CompositeDeclaration: Hashable, Codable, Sendable {
  /// The name of the composite. Other composites may use this name as the name of a component.
  public var name: String
  /// The names of the components: machines or other composites.
  public var components: [String]
  /// The events that components accept together. Each component accepts all other events alone.
  public var synchronize: [Synchronization]

  /// Makes a declaration.
  public init(_ name: String, components: [String], synchronize: [Synchronization]) {
    self.name = name
    self.components = components
    self.synchronize = synchronize
  }
}

/// An event that several components of a composite accept together, or not at all.
public struct Synchronization: Hashable, Codable, Sendable, ExpressibleByStringLiteral {
  /// The name of the event's case.
  public var event: String
  /// The names of the participants; `nil` for every component that has the event in its alphabet.
  public var participants: [String]?

  /// Makes a synchronization.
  public init(_ event: String, participants: [String]? = nil) {
    self.event = event
    self.participants = participants
  }

  /// Makes a synchronization of every component that has the event in its alphabet.
  public init(stringLiteral event: String) { self.init(event) }
}

/// One synchronized event of a composite, with all the machines that accept it together.
///
/// The order of the participants has no meaning.
public struct SyncVector: Hashable, Codable, Sendable {
  /// The composite through which the machines accept the event.
  public var composite: String
  /// The name of the event's case.
  public var event: String
  /// The names of the machines, sorted; composites among the components are resolved.
  public var participants: [String]
}

extension SyncVector: CustomStringConvertible {
  /// The vector as text: `lift.emergencyStop(door, motor)`.
  public var description: String {
    "\(composite).\(event)(\(participants.joined(separator: ", ")))"
  }
}

/// All errors in the declarations of composites.
public struct CompositionError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The errors, in the order in which they were found. There is at least one error.
  public let problems: [Problem]

  /// An error in the declaration of a composite.
  public enum Problem: Hashable, Sendable {
    /// Two machines or composites have the same name.
    case duplicateName(String)
    /// A composite has no components.
    case noComponents(composite: String)
    /// A composite lists a component twice.
    case repeatedComponent(String, composite: String)
    /// No machine and no composite has this name.
    case unknownComponent(String, composite: String, known: [String])
    /// Composites contain each other.
    case cycle([String])
    /// A participant is not one of the components.
    case unknownParticipant(String, event: String, composite: String, components: [String])
    /// The alphabet of a participant does not have the event.
    case notInAlphabet(String, event: String, composite: String, alphabet: [String])
    /// Fewer than two machines would accept the event.
    case tooFewParticipants([String], event: String, composite: String)
    /// The composite synchronizes the event twice.
    case repeatedEvent(String, composite: String)
    /// Several sets of machines could accept the event for a participant. The declaration does not
    /// select one of these sets.
    case alternatives([[String]], participant: String, event: String, composite: String)
  }
}

extension CompositionError {
  /// The messages of all errors, one per line.
  public var description: String { problems.map(\.description).joined(separator: "\n") }
}

extension CompositionError.Problem: CustomStringConvertible {
  /// A message that describes the error.
  public var description: String {
    switch self {
    case .duplicateName(let name):
      "duplicate name '\(name)' of machines or composites; rename one of them"
    case .noComponents(let composite):
      "composite '\(composite)' has no components"
    case .repeatedComponent(let name, let composite):
      "composite '\(composite)': component '\(name)' is listed twice"
    case .unknownComponent(let name, let composite, let known):
      """
      composite '\(composite)': no such component '\(name)'; nodes and composites are \
      \(Self.listText(known))
      """
    case .cycle(let names):
      "composites contain each other: \(names.joined(separator: " > "))"
    case .unknownParticipant(let name, let event, let composite, let components):
      """
      composite '\(composite)', event '\(event)': participant '\(name)' is not a \
      component of the composite; the components are \(Self.listText(components))
      """
    case .notInAlphabet(let name, let event, let composite, let alphabet):
      """
      composite '\(composite)', event '\(event)': participant '\(name)' does not accept the \
      event in any state; the participant accepts \(Self.listText(alphabet))
      """
    case .tooFewParticipants(let names, let event, let composite):
      """
      composite '\(composite)', event '\(event)': \
      \(names.isEmpty ? "no component accepts it" : "only \(Self.listText(names)) accepts it"); \
      a synchronized event requires two or more participants
      """
    case .repeatedEvent(let event, let composite):
      """
      composite '\(composite)': event '\(event)' is synchronized twice, so that requests would be \
      ambiguous; declare a separate composite for each synchronization
      """
    case .alternatives(let vectors, let participant, let event, let composite):
      """
      composite '\(composite)', event '\(event)': participant '\(participant)' could accept it in \
      \(vectors.count) ways: \(vectors.map { $0.joined(separator: " with ") }
        .joined(separator: " or ")); synchronize the event in '\(participant)', or list other \
      participants
      """
    }
  }

  private static func listText(_ names: [String]) -> String {
    names.isEmpty ? "none" : names.map { "'\($0)'" }.joined(separator: ", ")
  }
}
