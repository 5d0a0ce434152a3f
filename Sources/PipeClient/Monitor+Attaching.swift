extension Monitor {
  /// Attaches to a topology and watches it.
  package static func observe(topology: String, control: String, watch: [String]?) async throws {
    let client = try TopologyClient(topology: topology, control: control)
    defer { client.close() }
    try await observe(client.states(of: watch))
  }
}
