import PipeRuntime

/// The verb `orchestrator up`.
struct Up: Verb {
  let description = VerbDescription(
    "up", "Starts a topology or some of its nodes; in the background with -d",
    discussion:
      "The first argument is the topology file if it ends in .yaml, .yml or .json, contains a "
      + "slash, or names an existing file; all other arguments are nodes. With NODE, starts "
      + "only these nodes and their dependencies; the other nodes stay stopped until they are "
      + "started. If the topology is already running, starts the given nodes in it; without "
      + "NODE, starts all nodes if the topology was started from the same file. In this case, "
      + "the command returns at once or, with --wait, when the nodes are running. With --wait, "
      + "returns when every node is running, or with exit code 124 after --wait-timeout. If an "
      + "orchestrator is killed, its nodes keep running; 'up' then adopts the nodes whose "
      + "definitions in the file have not changed. 'orchestrator ui' shows a topology that "
      + "runs in the background.",
    options: [
      Option(
        "detach", "d",
        "Runs the topology in the background, and returns when the topology has started"),
      Option("wait", "Returns when all nodes run; implies -d"),
      Option("wait-timeout", value: .duration, "Maximum time to wait with --wait. Default: 60s"),
      Option(
        "name", value: .topology, "Runs the topology under this name. Default: the name in the file"
      ),
      .deployment, .noDependencies,
      Option("plain", "Writes lines instead of showing the screen"), .logFormat,
    ],
    positionals: [
      Positional("FILE", .fileOrNode, .optional, "The topology file. Default: topology.yaml"),
      Positional("NODE", .node, .any, "The nodes to start, with their dependencies. Default: all"),
    ],
    examples: [
      ("orchestrator up -d topologies/elevator.yaml", "Starts the elevator in the background"),
      (
        "orchestrator up --wait --wait-timeout 10s",
        "Starts topology.yaml and returns when all nodes run"
      ),
      (
        "orchestrator up topologies/elevator.yaml motor",
        "Starts the motor and the door, because the motor depends on the door"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let chosen = try FileAndNodes(arguments.positionals)
    let waitTimeout =
      arguments.contains(option: "wait") ? arguments.duration("wait-timeout") ?? .seconds(60) : nil
    let startsDependencies = !arguments.contains(option: "no-deps")
    if !chosen.nodes.isEmpty,
      let runningTopology = try runningTopology(chosen.file, arguments.value("name"))
    {
      if arguments.contains(option: "deployment") {
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
    guard arguments.contains(option: "detach") || arguments.contains(option: "wait") else {
      let isPlain = arguments.contains(option: "plain") || arguments.logFormat != nil
      return try TopologyRun(
        file: chosen.file, name: arguments.value("name"),
        deployment: arguments.value("deployment"), nodes: chosen.nodes,
        startsDependencies: startsDependencies,
        display: isPlain ? .plain : .onTerminal(console), logFormat: arguments.logFormat ?? .text
      ).run(console: console)
    }
    guard arguments.logFormat == nil else {
      throw CommandError(
        "--log-format requires a run in the foreground; omit -d and --wait", code: .usage)
    }
    return try BackgroundRun(
      file: chosen.file, name: arguments.value("name"),
      deployment: arguments.value("deployment"), nodes: chosen.nodes,
      startsDependencies: startsDependencies, waitTimeout: waitTimeout
    ).start(console: console)
  }

  /// Starts the stopped nodes of a running topology that was started from the same file.
  private func bringUp(
    _ name: String, by file: String, _ arguments: ParsedArguments, within waitTimeout: Duration?,
    _ console: Console
  ) async throws -> ExitCode {
    let client = try TopologyClient.attach(to: name)
    defer { client.close() }
    // If the orchestrator does not answer, this request fails sooner than the request for a plan.
    // So this request comes first.
    let directory = try await client.directory()
    let planned = try await client.plan(
      ChangeRequest(
        file: FileSystem.absolutePath(file), variables: ProcessEnvironment.current,
        keepsName: arguments.value("name") != nil, isDryRun: true,
        deployment: arguments.value("deployment").map(FileSystem.absolutePath)),
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

  /// Returns the name of the topology to start, if that topology is already running; otherwise
  /// `nil`. The name is the given name or, without it, the name in the file.
  private func runningTopology(_ file: String, _ name: String?) throws -> String? {
    let name = try name ?? TopologyReader.read(.file(file)).topology.name
    let directories = try RuntimeDirectories(topology: name)
    return RunningTopology.find(directories) == nil ? nil : name
  }
}
