/// A monitor that starts with the topology: a read-only process that watches nodes.
public struct MonitorSpecification: Hashable, Sendable {
  /// The name; unique among nodes, composites and monitors.
  public var name: String
  /// The monitor's registered name.
  public var monitor: String
  /// The nodes that it watches; `nil` watches all.
  public var watch: [String]?
  /// The executable; `nil` takes the topology's.
  public var program: String?

  /// Makes a monitor.
  public init(_ monitor: String, name: String, watch: [String]? = nil, program: String? = nil) {
    self.name = name
    self.monitor = monitor
    self.watch = watch
    self.program = program
  }
}

/// Nodes that synchronize on some events: parsed and answered with "not yet". DESIGN.md 3.3.
public struct CompositeSpecification: Hashable, Sendable {
  /// The name; unique among nodes, composites and monitors.
  public var name: String
  /// The nodes, and composites, that it is made of.
  public var components: [String]
  /// The participants of each synchronized event.
  public var synchronize: [String: [String]]
  /// A composite state that the program registers, or `nil` for the plain tuple.
  public var projection: String?

  /// Makes a composite.
  public init(
    name: String, components: [String], synchronize: [String: [String]] = [:],
    projection: String? = nil
  ) {
    self.name = name
    self.components = components
    self.synchronize = synchronize
    self.projection = projection
  }
}
