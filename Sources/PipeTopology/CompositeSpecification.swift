import PipeMachines

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
