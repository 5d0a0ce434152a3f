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
