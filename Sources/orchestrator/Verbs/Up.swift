import PipeRuntime

/// `orchestrator up`
struct Up: Verb {
  let description = VerbDescription(
    "up", "Starts a topology or some of its nodes; in the background with -d",
    discussion:
      "The first argument is the topology file if it ends in .yaml, .yml or .json, contains "
      + "a slash, or names an existing file; all other arguments are nodes. With NODE, starts "
      + "only these nodes and their dependencies; the other nodes stay stopped until they are "
      + "started. If the topology is already running, starts the nodes in it and returns at "
      + "once, or with --wait when they run; without NODE, starts all nodes if the topology "
      + "runs by the same file. With --wait, returns when every node runs, or with exit code "
      + "124 after --wait-timeout. Nodes keep running when their orchestrator is killed; 'up' "
      + "then adopts the nodes that the file has not changed. 'orchestrator ui' shows a "
      + "topology that runs in the background.",
    options: [
      Option(
        "detach", "d", "Returns when the topology is started; the topology runs in the background"),
      Option("wait", "Returns when all nodes run; implies -d"),
      Option("wait-timeout", value: .duration, "Maximum time to wait with --wait. Default: 60s"),
      Option(
        "name", value: .topology, "Runs the topology under this name. Default: the name in the file"
      ),
      .deployment, .noDependencies,
      Option("plain", "Writes lines instead of showing the screen"),
    ],
    positionals: [
      Positional("FILE", .fileOrNode, .optional, "The topology file. Default: topology.yaml"),
      Positional("NODE", .node, .any, "The nodes to start, with their dependencies. Default: all"),
    ],
    examples: [
      ("orchestrator up -d topologies/elevator.yaml", "Starts the elevator in the background"),
      (
        "orchestrator up --wait --wait-timeout 10s",
        "Starts topology.yaml and returns when it runs"
      ),
      (
        "orchestrator up topologies/elevator.yaml motor",
        "Starts the motor, and the door, on which it depends"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let chosen = try FileAndNodes(arguments.positionals)
    let waitTimeout =
      arguments.flag("wait") ? arguments.duration("wait-timeout") ?? .seconds(60) : nil
    let startsDependencies = !arguments.flag("no-deps")
    if !chosen.nodes.isEmpty,
      let runningTopology = try runningTopology(chosen.file, arguments.value("name"))
    {
      if arguments.flag("deployment") {
        throw CommandError(
          "topology '\(runningTopology)' is already running and keeps its deployment; omit --deployment "
            + "to start nodes in it, or stop it first with 'orchestrator down -p \(runningTopology)'",
          code: .usage)
      }
      let nodes = chosen.nodes
      let client = try TopologyClient.attach(to: runningTopology)
      defer { client.close() }
      let names = try await client.bringUp(
        nodes, withDependencies: startsDependencies, within: waitTimeout)
      for node in try await client.directory().nodes(of: names) { try console.print(node.line) }
      return .success
    }
    if chosen.nodes.isEmpty, let name = try? runningTopology(chosen.file, arguments.value("name")) {
      return try await bringUp(name, by: chosen.file, arguments, within: waitTimeout, console)
    }
    guard arguments.flag("detach") || arguments.flag("wait") else {
      return try TopologyRun(
        file: chosen.file, name: arguments.value("name"),
        deployment: arguments.value("deployment"), nodes: chosen.nodes,
        startsDependencies: startsDependencies,
        display: arguments.flag("plain") ? .plain : .onTerminal(console)
      ).run(console: console)
    }
    return try BackgroundRun(
      file: chosen.file, name: arguments.value("name"),
      deployment: arguments.value("deployment"), nodes: chosen.nodes,
      startsDependencies: startsDependencies, waitTimeout: waitTimeout
    ).start(console: console)
  }

  /// Starts the stopped nodes of a topology that runs by an unchanged file.
  private func bringUp(
    _ name: String, by file: String, _ arguments: ParsedArguments, within waitTimeout: Duration?,
    _ console: Console
  ) async throws -> ExitCode {
    let client = try TopologyClient.attach(to: name)
    defer { client.close() }
    // An orchestrator that does not answer is found sooner by this request than by a plan.
    let directory = try await client.directory()
    let planned = try await client.plan(
      ChangeRequest(
        file: FileSystem.absolute(file), variables: ProcessEnvironment.current,
        keepsName: arguments.value("name") != nil, isDryRun: true,
        deployment: arguments.value("deployment").map(FileSystem.absolute)),
      within: waitTimeout ?? .seconds(60))
    guard planned.change.isEmpty else {
      throw CommandError(
        "topology '\(name)' is already running, and '\(file)' has changed since; "
          + "'orchestrator apply' applies the changes; with --dry-run it only shows them")
    }
    // Nodes that have completed are not started again.
    let nodes = directory.nodes.filter { $0.phase != "completed" }.map(\.name)
    _ = try await client.bringUp(nodes, withDependencies: true, within: waitTimeout)
    try console.print(
      "\(name): already running with the same file, orchestrator pid \(directory.pid)")
    return .success
  }

  /// Returns the name of the topology in the file, or the given name, if that topology runs.
  private func runningTopology(_ file: String, _ name: String?) throws -> String? {
    let name = try name ?? TopologyReader.read(.file(file)).topology.name
    let directories = try RuntimeDirectories(topology: name)
    return RunningTopology.find(directories) == nil ? nil : name
  }
}
