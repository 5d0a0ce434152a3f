import PipeMachines

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
  /// What the monitor decodes its parameters from; an object.
  public var parameters: JSONValue
  /// Variables added to the monitor's environment.
  public var environment: [String: String]

  /// Makes a monitor.
  public init(
    _ monitor: String, name: String, watch: [String]? = nil, program: String? = nil,
    parameters: JSONValue = [:], environment: [String: String] = [:]
  ) {
    self.parameters = parameters
    self.environment = environment
    self.name = name
    self.monitor = monitor
    self.watch = watch
    self.program = program
  }
}
