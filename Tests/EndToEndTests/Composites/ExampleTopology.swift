import PipeRuntime

/// The topologies of the examples, with other parameters where a test requires them.
enum ExampleTopology {
  /// Reads one of the package's topology files.
  /// - Parameter parameters: Parameters that replace the parameters of the file, by machine.
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

  /// Returns a lift that moves slowly enough for a test to inspect it.
  static func slowLift() throws -> Topology {
    try read("lift.yaml", parameters: ["LiftMotor": ["floors": 5, "floorTime": 600_000]])
  }
}
