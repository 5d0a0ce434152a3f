import PipeRuntime
import PipeSupervision

/// `orchestrator probe`
struct Probe: Verb {
  let description = VerbDescription(
    "probe", "Tells whether the agent or the orchestrator of this host is well",
    discussion:
      "For probes of Kubernetes. The agent of the node is asked that has this PIPERUNTIME_ROOT; without a node, the only "
      + "agent, or the orchestrator of the one topology that runs there. With --ready the agent's node is to run, or all "
      + "nodes of the topology. Exit code 1: it does not answer in time, or does not run.",
    options: [
      Option("ready", "Whether it runs, too"),
      Option("timeout", value: .duration, "The longest wait for an answer. Default: 3s"),
    ],
    positionals: [Positional("NODE", .node, .optional, "The node. Default: as above")],
    examples: [("orchestrator probe --ready", "Exit code 0 when the node of this pod runs")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let limit = arguments.duration("timeout") ?? .seconds(3)
    let isForReadiness = arguments.flag("ready")
    let agents = AgentProbe.nodes()
    guard agents.count < 2 || !arguments.positionals.isEmpty else {
      throw CommandError(
        "there are several agents: name one of \(agents.joined(separator: ", "))", code: .usage)
    }
    if let node = arguments.positionals.first ?? agents.first {
      guard let probe = try AgentProbe.ask(node, within: limit) else {
        throw CommandError("the agent of '\(node)' has not answered within \(limit.shortText)")
      }
      let state = probe.note?.state ?? "not started"
      try console.print(
        "\(probe.node): \(state)\(probe.isHeard ? "" : "; its orchestrator is not heard")")
      return !isForReadiness || probe.note?.isRunning == true ? .success : .failure
    }
    let answer = try await withTimeout(limit) {
      try await arguments.onTopology { try await $0.directory() }
    }
    guard let directory = answer else {
      throw CommandError("the orchestrator has not answered within \(limit.shortText)")
    }
    try console.print("\(directory.topology): \(directory.isRunning ? "running" : directory.phase)")
    return !isForReadiness || directory.isRunning ? .success : .failure
  }
}
