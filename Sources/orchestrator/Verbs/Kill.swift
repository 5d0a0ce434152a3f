import PipeRuntime

/// `orchestrator kill`
struct Kill: Verb {
  let description = VerbDescription(
    "kill", "Sends a signal to nodes' processes",
    discussion: "The nodes' restart policies apply, as they would to a crash.",
    options: [
      .topology,
      Option("signal", "s", value: .signal, "The signal. Default: KILL"),
    ],
    positionals: [Positional("NODE", .node, .some, "The nodes")],
    examples: [
      ("orchestrator kill door", "Kills the door; its policy starts it again"),
      ("orchestrator kill -s STOP door", "Freezes the door, until its heartbeat is missed"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let nodes = arguments.positionals
    let signal = arguments.signal("signal") ?? .kill
    let signalled = try await arguments.onTopology { topology in
      let found = try await topology.directory().nodes(named: nodes)
      if let dead = found.first(where: { $0.pid == nil }) {
        throw TopologyClientError.failed("node '\(dead.name)' has no process: it is \(dead.phase)")
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
