/// A composite as it is written down: its components, and the events that they take together.
///
/// Only names: they come from code or from a topology file. ``Composition`` checks them.
public struct CompositeDeclaration: Hashable, Codable, Sendable {
  /// The name of the composite; a composite may be a component of another by it.
  public var name: String
  /// The names of its components: machines, or other composites.
  public var components: [String]
  /// The events that components take together. All others they take each for itself.
  public var synchronize: [Synchronization]

  /// Makes one.
  public init(_ name: String, components: [String], synchronize: [Synchronization]) {
    self.name = name
    self.components = components
    self.synchronize = synchronize
  }
}

/// An event that several components of a composite take together, or none of them.
public struct Synchronization: Hashable, Codable, Sendable, ExpressibleByStringLiteral {
  /// The name of the event's case.
  public var event: String
  /// Who takes part; `nil` for every component that has the event in its alphabet.
  public var participants: [String]?

  /// Makes one.
  public init(_ event: String, participants: [String]? = nil) {
    self.event = event
    self.participants = participants
  }

  /// The event, taken by every component that has it in its alphabet.
  public init(stringLiteral event: String) { self.init(event) }
}

/// One synchronized event of a composite and all the machines that take it together.
///
/// The order of participants means nothing.
public struct SyncVector: Hashable, Codable, Sendable {
  /// The composite through which the event is taken.
  public var composite: String
  /// The name of the event's case.
  public var event: String
  /// The names of the machines, sorted; composites among the components are resolved.
  public var participants: [String]
}

extension SyncVector: CustomStringConvertible {
  /// The vector in words: `lift.emergencyStop(door, motor)`.
  public var description: String {
    "\(composite).\(event)(\(participants.joined(separator: ", ")))"
  }
}
