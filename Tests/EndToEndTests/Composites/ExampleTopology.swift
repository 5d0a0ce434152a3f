import PipeRuntime

/// The topologies of the examples, with other parameters where a test needs them.
enum ExampleTopology {
  /// Reads one of the package's files.
  /// - Parameter parameters: What its machines are given instead, by the names of the machines.
  static func read(
    _ file: String, parameters: [String: JSONValue] = [:]
  ) throws -> Topology {
    var topology = try TopologyReader.read(
      path: "\(PackagePath.root)/topologies/\(file)"
    ).topology
    for index in topology.nodes.indices {
      guard let own = topology.nodes[index].machine.flatMap({ parameters[$0] }) else { continue }
      topology.nodes[index].parameters = own
    }
    return topology
  }

  /// A lift that moves for so long that a test can look at it.
  static func slowLift() throws -> Topology {
    try read("lift.yaml", parameters: ["LiftMotor": ["floors": 5, "floorTime": 600_000]])
  }
}
