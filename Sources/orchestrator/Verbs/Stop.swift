import PipeRuntime

/// `orchestrator stop`
struct Stop: Verb {
  let description = VerbDescription(
    "stop", "Stops nodes in order, and keeps them stopped",
    options: [
      .topology,
      Option("timeout", value: .duration, "The longest wait for their end. Default: 30s"),
    ],
    positionals: [Positional("NODE", .node, .some, "The nodes")],
    examples: [("orchestrator stop door motor", "Stops two nodes; the others go on")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let nodes = arguments.positionals
    let timeout = arguments.duration("timeout") ?? .seconds(30)
    let directory = try await arguments.onTopology { topology in
      try await topology.stop(nodes, within: timeout)
      return try await topology.directory()
    }
    for node in try directory.nodes(named: nodes) { try console.print(node.line) }
    return .success
  }
}
