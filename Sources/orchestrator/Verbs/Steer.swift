import PipeRuntime

/// The verbs `orchestrator start`, `stop` and `restart`.
struct NodeControlVerb: Verb {
  let description: VerbDescription
  private let change: @Sendable (TopologyClient, [String], Duration) async throws -> Void

  private init(
    _ name: String, _ summary: String, discussion: String = "", wait: String,
    defaultsToAll: Bool = false, example: (String, String),
    _ change: @escaping @Sendable (TopologyClient, [String], Duration) async throws -> Void
  ) {
    description = VerbDescription(
      name, summary, discussion: discussion,
      options: [
        .topology,
        Option("timeout", value: .duration, "Maximum time to wait \(wait). Default: 30s"),
      ],
      positionals: [
        Positional(
          "NODE", .node, defaultsToAll ? .any : .some,
          defaultsToAll ? "The nodes. Default: all except stopped nodes" : "The nodes")
      ], examples: [example])
    self.change = change
  }

  static let start = NodeControlVerb(
    "start", "Starts nodes that are stopped or failed", wait: "until the nodes run",
    example: ("orchestrator start door", "Starts the door again")
  ) { try await $0.start($1, within: $2) }

  static let stop = NodeControlVerb(
    "stop", "Stops nodes gracefully, and keeps them stopped", wait: "until the nodes have stopped",
    example: ("orchestrator stop door motor", "Stops two nodes; the others keep running")
  ) { try await $0.stop($1, within: $2) }

  static let restart = NodeControlVerb(
    "restart", "Stops nodes gracefully and starts them again",
    discussion: "A manual restart does not count against the limit of the restart policy.",
    wait: "until the nodes run", defaultsToAll: true,
    example: ("orchestrator restart door", "Restarts the door in a new process")
  ) { try await $0.restart($1, within: $2) }

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let named = arguments.positionals
    let timeout = arguments.duration("timeout") ?? .seconds(30)
    let (nodes, directory) = try await arguments.onTopology { topology in
      let all = try await named.isEmpty ? topology.directory().nodes : []
      let nodes = named + all.filter { !["stopped", "idle"].contains($0.phase) }.map(\.name)
      try await change(topology, nodes, timeout)
      return (nodes, try await topology.directory())
    }
    for node in try directory.nodes(named: nodes) { try console.print(node.line) }
    return .success
  }
}

/// The verb `orchestrator kill`.
struct Kill: Verb {
  let description = VerbDescription(
    "kill", "Sends a signal to the processes of nodes",
    discussion: "The restart policies of the nodes apply, as after a crash.",
    options: [
      .topology,
      Option("signal", "s", value: .signal, "The signal. Default: KILL"),
    ],
    positionals: [Positional("NODE", .node, .some, "The nodes")],
    examples: [
      ("orchestrator kill door", "Kills the door; its restart policy starts it again"),
      (
        "orchestrator kill -s STOP door",
        "Suspends the door; the orchestrator soon restarts the door, because it sends no heartbeats"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let nodes = arguments.positionals
    let signal = arguments.signal("signal") ?? .kill
    let signalled = try await arguments.onTopology { topology in
      let found = try await topology.directory().nodes(named: nodes)
      if let nodeWithoutProcess = found.first(where: { $0.pid == nil }) {
        throw CommandError.noProcess(
          of: nodeWithoutProcess.name, phase: nodeWithoutProcess.phase)
      }
      for node in found { try await topology.kill(node.name, signal: signal.number) }
      return found
    }
    for node in signalled {
      let pid = node.pid.map { " to pid \($0)" } ?? ""
      try console.print("\(node.name): sent \(signal)\(pid)")
    }
    return .success
  }
}
