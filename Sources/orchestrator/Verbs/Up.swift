import PipeRuntime

/// `orchestrator up`
struct Up: Verb {
  let description = VerbDescription(
    "up", "Starts a topology, or nodes of it; in the background with -d",
    discussion:
      "The first argument is the file where it ends in .yaml, .yml or .json, has a slash, or is a file "
      + "that exists; all others are nodes. With nodes, only these and what they depend on are "
      + "started, and the others are stopped until they are started, too. Where the topology runs "
      + "already, they are started in it, and 'up' returns at once, or with --wait when they run; without nodes all "
      + "are, where the file is the one that it runs by. "
      + "With --wait it returns when every node runs, or with exit code 124 when that takes "
      + "too long. 'orchestrator ui' shows one in the background. Its nodes go on "
      + "when their orchestrator is killed; started again, it adopts those that the file has not "
      + "changed, as they are.",
    options: [
      Option("detach", "d", "Returns when it is started; it goes on in the background"),
      Option("wait", "Returns when all nodes run; implies -d"),
      Option("wait-timeout", value: .duration, "The longest wait of --wait. Default: 60s"),
      Option("name", value: .topology, "Runs it under this name. Default: the name in the file"),
      .deployment, .noDependencies,
      Option("plain", "Writes lines instead of the screen"),
    ],
    positionals: [
      Positional("FILE", .fileOrNode, .optional, "The topology file. Default: topology.yaml here"),
      Positional("NODE", .node, .any, "Those to start, with what they need. Default: all"),
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
    let wait = arguments.flag("wait") ? arguments.duration("wait-timeout") ?? .seconds(60) : nil
    let startsDependencies = !arguments.flag("no-deps")
    if !chosen.nodes.isEmpty, let running = try running(chosen.file, arguments.value("name")) {
      if arguments.flag("deployment") {
        throw CommandError(
          "'\(running)' runs already, by the deployment that it was started with, or none: leave "
            + "--deployment out to start nodes in it, or end it with 'orchestrator down -p \(running)' first",
          code: .usage)
      }
      let nodes = chosen.nodes
      let client = try TopologyClient.attach(to: running)
      defer { client.close() }
      let names = try await client.bringUp(
        nodes, withDependencies: startsDependencies, within: wait)
      for node in try await client.directory().nodes(of: names) { try console.print(node.line) }
      return .success
    }
    if chosen.nodes.isEmpty, let name = try? running(chosen.file, arguments.value("name")) {
      return try await bringUp(name, by: chosen.file, arguments, within: wait, console)
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
      startsDependencies: startsDependencies, waitsFor: wait
    ).start(console: console)
  }

  /// Starts the stopped nodes of a topology that runs by an unchanged file.
  private func bringUp(
    _ name: String, by file: String, _ arguments: ParsedArguments, within wait: Duration?,
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
      within: wait ?? .seconds(60))
    guard planned.change.isEmpty else {
      throw CommandError(
        "'\(name)' runs already, and what \(file) says has changed since: 'orchestrator apply' shows that with "
          + "--dry-run, and takes it up")
    }
    // Nodes that have completed are not started again.
    let nodes = directory.nodes.filter { $0.phase != "completed" }.map(\.name)
    _ = try await client.bringUp(nodes, withDependencies: true, within: wait)
    try console.print(
      "\(name): runs already, by the same file, orchestrator pid \(directory.pid)")
    return .success
  }

  /// Returns the name of the topology in the file, or the given name, if that topology runs.
  private func running(_ file: String, _ name: String?) throws -> String? {
    let name = try name ?? TopologyReader.read(.file(file)).topology.name
    let directories = try RuntimeDirectories(topology: name)
    return RunningTopology.find(directories) == nil ? nil : name
  }
}
