extension TopologyClient {
  /// Attaches to a running topology by its name; without one to the only one that runs.
  /// - Throws: ``TopologyClientError``: `notRunning`, or `ambiguous` where several run.
  public static func attach(to name: String? = nil) throws -> TopologyClient {
    let directories = try RunningTopology.choose(name)
    return try TopologyClient(
      topology: directories.topology, control: directories.endpoint(.control),
      keys: ClientKeys(in: directories))
  }
}

extension TopologyClient {
  /// Attaches to a topology that runs on another host.
  ///
  /// It returns before the orchestrator has answered. Where that does not come within 5 s, or is not let in, calls
  /// throw ``TopologyClientError/unreachable(_:_:)``. A connection that breaks later is waited for, for 10 s.
  /// - Parameters:
  ///   - endpoint: Where its orchestrator is reached from here, `tcp://HOST:PORT`; the host may be a name, which is
  ///     looked up at each connect. `nil` for where the key file says that it is.
  ///   - path: A copy of the file `client.key` in the runtime directory of the run, of mode 600.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``
  public static func attach(
    to endpoint: String? = nil, key path: String
  ) throws -> TopologyClient {
    try attach(to: .remote(RemoteTopology(key: path, at: endpoint)))
  }

  /// Attaches to a running topology, wherever it runs.
  package static func attach(to target: TopologyTarget) throws -> TopologyClient {
    switch target {
    case .local(let name): try attach(to: name)
    case .remote(let topology):
      try TopologyClient(
        topology: topology.name, control: topology.endpoint, keys: ClientKeys(topology))
    }
  }
}

extension TopologyClient {
  /// How a command line names the topology: `-p NAME`, or `--key FILE` from another host.
  package var choice: String {
    guard let remote else { return "-p \(topology)" }
    return "--key \(remote.path)" + (remote.isRedirected ? " --connect \(remote.endpoint)" : "")
  }

  /// That the connection to an orchestrator on another host was lost, where that has not told that the topology has
  /// gone down: it may go on.
  package var lossOfConnection: TopologyClientError? {
    guard let remote, shared.state.withLock({ $0.isLost }) else { return nil }
    return .unreachable(remote.endpoint, .broken)
  }

  /// Why the orchestrator is not to be reached any more, with what to do; `nil` where the topology
  /// has gone down. Blocks the thread for a second at most, while an orchestrator that ends holds its
  /// lock.
  package var problemAtEnd: TopologyClientError? {
    if remote != nil { return lossOfConnection }
    do {
      let directories = try RunningTopology.choose(topology)
      let orchestrator = RunningTopology.find(directories)?.process
      if RunningTopology.awaitEnd(of: directories, orchestrator, until: .now + .seconds(1)) {
        _ = try RunningTopology.choose(topology)
      }
      return .orchestratorGone(topology)
    } catch TopologyClientError.orphaned(let name, let nodes, let file, let deployment) {
      return .orphaned(name, nodes: nodes, file: file, deployment: deployment)
    } catch {
      return nil
    }
  }
}

extension RunningTopology {
  /// The directories of the running topology with this name, or of the only one that runs.
  package static func choose(_ name: String?) throws -> RuntimeDirectories {
    let roots = RuntimeRoots()
    if let name {
      let directories = try RuntimeDirectories(topology: name, roots: roots)
      guard find(directories) != nil else {
        if let orphan = OrphanedTopology.find(directories) { throw orphan.error }
        throw TopologyClientError.notRunning(name, running: all(in: roots).map(\.name))
      }
      return directories
    }
    let names = all(in: roots).map(\.name)
    switch names.count {
    case 0:
      let orphans = OrphanedTopology.all(in: roots)
      if orphans.count == 1 { throw orphans[0].error }
      if orphans.count > 1 { throw TopologyClientError.ambiguous(orphans.map(\.name)) }
      throw TopologyClientError.noneRunning
    case 1: return try RuntimeDirectories(topology: names[0], roots: roots)
    default: throw TopologyClientError.ambiguous(names.sorted())
    }
  }
}

extension OrphanedTopology {
  fileprivate var error: TopologyClientError {
    .orphaned(
      name, nodes: nodes.map(\.node), file: file,
      deployment: deployment ?? (isDeployed ? "DEPLOYMENT" : nil))
  }
}
