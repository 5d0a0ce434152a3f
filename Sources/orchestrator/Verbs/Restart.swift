import PipeRuntime

/// `orchestrator restart`
struct Restart: Verb {
  let description = VerbDescription(
    "restart", "Stops nodes in order and starts them again",
    discussion: "A restart by hand does not count against the policy's limit.",
    options: [
      .topology,
      Option("timeout", value: .duration, "The longest wait until they run. Default: 30s"),
    ],
    positionals: [Positional("NODE", .node, .some, "The nodes")],
    examples: [("orchestrator restart door", "A new process for the door")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let nodes = arguments.positionals
    let timeout = arguments.duration("timeout") ?? .seconds(30)
    let directory = try await arguments.onTopology { topology in
      try await topology.restart(nodes, within: timeout)
      return try await topology.directory()
    }
    for node in try directory.nodes(named: nodes) { try console.print(node.line) }
    return .success
  }
}
