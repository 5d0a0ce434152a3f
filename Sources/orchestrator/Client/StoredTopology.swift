import PipeRuntime

extension ParsedArguments {
  /// Attaches to the running topology that the arguments select, and runs an operation with a
  /// client of this topology.
  func onTopology<Value>(
    _ operation: (TopologyClient) async throws -> Value
  ) async throws -> Value {
    let client = try TopologyClient.attach(to: target)
    defer { client.close() }
    return try await operation(client)
  }
}

extension ParsedArguments {
  /// Throws an error if the topology runs on another host. Verbs that read files on the topology's
  /// host call this.
  /// - Parameter errorPrefix: The first words of the error message, such as `'orchestrator journal'
  ///   reads the nodes' journals`.
  func requireLocalTopology(_ errorPrefix: String) throws {
    guard let remote = try target.remote else { return }
    throw CommandError.onOtherHost(
      errorPrefix, endpoint: "\(remote.endpoint)", topology: remote.name)
  }
}

extension TopologyDirectory {
  /// Returns the nodes that run in these processes. If a process coordinates several composites,
  /// only the first of these composites is returned.
  func nodes(of processes: [String]) -> [NodeInformation] {
    processes.compactMap { self[node: $0] }
  }

  /// Returns the nodes with these names, in this order. If the list is empty, returns all nodes.
  /// - Parameter includingInstances: Whether a name can also be the name of an instance,
  ///   `NODE[KEY]`. For an instance, the result contains the instance's node, renamed to the
  ///   instance.
  /// - Throws: ``TopologyClientError/unknownNode(_:known:)``
  package func nodes(
    named names: [String], includingInstances: Bool = false
  ) throws(TopologyClientError) -> [NodeInformation] {
    if names.isEmpty { return nodes }
    var found: [NodeInformation] = []
    for name in names {
      if includingInstances, self[node: name] == nil, let instance = InstanceName(name),
        let key = try? InstanceKey(instance.key), var node = host(of: key, in: instance.node),
        node.instanceField != nil
      {
        node.name = name
        if !found.contains(node) { found.append(node) }
        continue
      }
      let processes = processes(of: name)
      if processes.isEmpty { throw .unknownNode(name, known: self.names) }
      for node in processes where !found.contains(node) { found.append(node) }
    }
    return found
  }
}

/// Finds the topology that a command line selects, whether or not the topology is running.
enum StoredTopology {
  /// Returns the directories of the topology with this name, which does not have to be running.
  /// Without a name, returns the directories of the only running topology or, if no topology is
  /// running, of the only known topology.
  /// - Parameter requiredContent: The data that the topology must have, as named in the error
  ///   message.
  static func findDirectories(
    _ arguments: ParsedArguments, requiredContent: String
  ) throws -> RuntimeDirectories {
    let roots = RuntimeRoots()
    let known = FileSystem.entryNames(of: roots.state).filter { name in
      // On a host without the orchestrator, the directory of a topology may contain only journals.
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
    case 0: throw CommandError.noTopologyHasRun
    case 1: return try RuntimeDirectories(topology: candidates[0], roots: roots)
    default: throw ambiguityError(candidates, running.isEmpty ? "known" : "running")
    }
  }

  private static func ambiguityError(_ names: [String], _ adjective: String) -> CommandError {
    CommandError(
      "\(names.count) topologies are \(adjective); choose one with -p: "
        + names.joined(separator: ", "), code: .usage)
  }

  private static func hint(_ name: String, _ names: [String]) -> String {
    names.isEmpty ? "" : Suggestion.among(names, like: name, verb: "there are")
  }
}
