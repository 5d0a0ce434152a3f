import PipeRuntime

extension ParsedArguments {
  /// Attaches to the running topology that the arguments name, and runs an operation on it.
  func onTopology<Value>(
    _ operation: (TopologyClient) async throws -> Value
  ) async throws -> Value {
    let client = try TopologyClient.attach(to: target)
    defer { client.close() }
    return try await operation(client)
  }
}

extension ParsedArguments {
  /// Throws if the topology runs on another host. For verbs that read files of the topology's own
  /// host.
  /// - Parameter errorPrefix: The start of the error message: `'orchestrator journal' reads the nodes'
  ///   journals`.
  func requireLocalTopology(_ errorPrefix: String) throws {
    guard let remote = try target.remote else { return }
    throw CommandError(
      "\(errorPrefix) on the host of the orchestrator at \(remote.endpoint); run the command on "
        + "that host, with -p \(remote.name)", code: .usage)
  }
}

extension TopologyDirectory {
  /// The rows of these processes. A process that coordinates several composites has the row of the
  /// first one.
  func nodes(of processes: [String]) -> [NodeInformation] {
    processes.compactMap { self[node: $0] }
  }

  /// The nodes with these names, in this order; all nodes if the list is empty.
  /// - Parameter includingInstances: Whether a name may be the name of an instance, `NODE[KEY]`. The
  ///   result is then the row of the node, under the name of the instance.
  /// - Throws: ``TopologyClientError/unknownNode(_:known:)``
  package func nodes(
    named names: [String], includingInstances: Bool = false
  ) throws(TopologyClientError) -> [NodeInformation] {
    if names.isEmpty { return nodes }
    var found: [NodeInformation] = []
    for name in names {
      if includingInstances, self[node: name] == nil, let instance = InstanceName(name),
        var node = self[node: instance.node], node.instanceField != nil
      {
        node.name = name
        if !found.contains(node) { found.append(node) }
        continue
      }
      guard let node = self[node: name] else {
        throw .unknownNode(name, known: nodes.map(\.name))
      }
      if !found.contains(node) { found.append(node) }
    }
    return found
  }
}

/// Finds the topology that a verb means, for verbs that also work on ended topologies.
enum StoredTopology {
  /// The directories of the named topology, which may have ended. Without a name, a running
  /// topology is preferred.
  /// - Parameter requiredContent: What the topology must have, for the error message.
  static func findDirectories(
    _ arguments: ParsedArguments, requiredContent: String
  ) throws -> RuntimeDirectories {
    let roots = RuntimeRoots()
    let known = FileSystem.entries(of: roots.state).filter { name in
      // A host other than the orchestrator's may hold journals only.
      (try? RuntimeDirectories(topology: name, roots: roots))
        .map { FileSystem.isDirectory($0.logs) || FileSystem.isDirectory($0.journals) } ?? false
    }
    if let name = arguments.topology {
      guard known.contains(name) else {
        throw CommandError(
          "topology '\(name)' has no \(requiredContent) on this host" + hint(name, known),
          code: .notRunning)
      }
      return try RuntimeDirectories(topology: name, roots: roots)
    }
    let running = RunningTopology.all(in: roots).map(\.name)
    let candidates = running.isEmpty ? known : running
    switch candidates.count {
    case 0: throw CommandError("no topology has run on this host yet", code: .notRunning)
    case 1: return try RuntimeDirectories(topology: candidates[0], roots: roots)
    default: throw ambiguous(candidates, running.isEmpty ? "known" : "running")
    }
  }

  private static func ambiguous(_ names: [String], _ adjective: String) -> CommandError {
    CommandError(
      "\(names.count) topologies are \(adjective); choose one with -p: "
        + names.joined(separator: ", "), code: .usage)
  }

  private static func hint(_ name: String, _ names: [String]) -> String {
    names.isEmpty ? "" : Suggestion.among(names, like: name, verb: "there are")
  }
}
