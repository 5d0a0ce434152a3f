import PipeRuntime

/// `orchestrator start`
struct Start: Verb {
  let description = VerbDescription(
    "start", "Starts nodes that are stopped or failed",
    options: [
      .topology,
      Option("timeout", value: .duration, "The longest wait until they run. Default: 30s"),
    ],
    positionals: [Positional("NODE", .node, .some, "The nodes")],
    examples: [("orchestrator start door", "Starts the door again")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let nodes = arguments.positionals
    let timeout = arguments.duration("timeout") ?? .seconds(30)
    let directory = try await arguments.onTopology { topology in
      try await topology.start(nodes, within: timeout)
      return try await topology.directory()
    }
    for node in try directory.nodes(named: nodes) { try console.print(node.line) }
    return .success
  }
}
