import PipeRuntime

extension ParsedArguments {
  /// Attaches to the running topology meant, and runs an operation on it.
  func onTopology<Value>(
    _ operation: (TopologyClient) async throws -> Value
  ) async throws -> Value {
    let client = try TopologyClient.attach(to: target)
    defer { client.close() }
    return try await operation(client)
  }
}

extension ParsedArguments {
  /// Throws where the topology runs on another host, for what is read from files of that host.
  /// - Parameter what: What does so, in words: `'orchestrator journal' reads the nodes' journals`.
  func expectHere(_ what: String) throws {
    guard let remote = try target.remote else { return }
    throw CommandError(
      "\(what) on the host of the orchestrator at \(remote.endpoint), and does not work from another one: run it "
        + "there, with -p \(remote.name)", code: .usage)
  }
}

extension TopologyDirectory {
  /// The rows of these processes: where one coordinates several composites, that of the first.
  func nodes(of processes: [String]) -> [NodeInformation] {
    processes.compactMap { self[node: $0] }
  }

  /// The nodes with these names in their order, or all where there are none.
  /// - Throws: ``TopologyClientError/unknownNode(_:known:)``
  package func nodes(named names: [String]) throws(TopologyClientError) -> [NodeInformation] {
    if names.isEmpty { return nodes }
    var found: [NodeInformation] = []
    for name in names {
      guard let node = self[node: name] else {
        throw .unknownNode(name, known: nodes.map(\.name))
      }
      if !found.contains(node) { found.append(node) }
    }
    return found
  }
}
