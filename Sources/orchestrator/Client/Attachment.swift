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
