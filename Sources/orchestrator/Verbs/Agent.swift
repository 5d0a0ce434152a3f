import PipeRuntime
import PipeSupervision

/// The verb `orchestrator agent`.
struct Agent: Verb {
  let description = VerbDescription(
    "agent", "Runs a node on this host for its orchestrator",
    discussion:
      "For deployments with 'engine: kubernetes': the pod of each node runs this command. The "
      + "agent waits until it can reach the orchestrator. Then it starts the node's process, "
      + "reads the process's output, and ends the process, as the orchestrator commands. "
      + "SIGTERM gracefully stops the node, and then the agent. The process always ends with "
      + "the agent.",
    options: [
      Option(
        "key", value: .file,
        "The agent's key file, with the orchestrator's address and public key: 'agent.key' "
          + "of the node's Secret"),
      Option(
        "address", value: .text("ADDRESS"),
        "The IPv4 address that the node listens on. Default: 127.0.0.1"),
      Option("host", value: .text("NAME"), "The name that 'ps' shows for this host"),
    ],
    positionals: [Positional("NODE", .node, .one, "The node")],
    examples: [
      (
        "orchestrator agent door --key agent.key",
        "Runs node 'door' on this host"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let key = try arguments.required("key", of: description)
    let address = arguments.value("address") ?? Deployment.defaultAddress
    guard IPv4Address(address) != nil else {
      throw CommandError(
        "--address: '\(address)' is not a numeric IPv4 address such as 10.0.0.7", code: .usage)
    }
    let agent: NodeAgent
    do {
      agent = try NodeAgent(
        .init(
          node: arguments.positionals[0], key: try KeyFile.readWithControl(key), address: address,
          host: arguments.value("host")))
    } catch let error as KeyFileError {
      throw CommandError("\(error)", code: .usage)
    }
    return ExitCode(rawValue: try agent.run())
  }
}

/// The verb `orchestrator probe`.
struct Probe: Verb {
  let description = VerbDescription(
    "probe", "Reports whether the agent or the orchestrator on this host is healthy",
    discussion:
      "For Kubernetes probes. Asks the agent of NODE under this PIPERUNTIME_ROOT. Without NODE, "
      + "asks the only agent there or, if there is no agent, the orchestrator of the only "
      + "running topology. With --ready, the agent's node, or all nodes of the topology, must "
      + "be running as well. Exit code 1: no answer in time, or a node is not running.",
    options: [
      Option("ready", "Also requires that the node, or each node of the topology, is running"),
      Option("timeout", value: .duration, "Maximum time to wait for an answer. Default: 3s"),
    ],
    positionals: [
      Positional("NODE", .node, .optional, "The node whose agent is asked. Default: see above")
    ],
    examples: [("orchestrator probe --ready", "Exits 0 if the node of this pod runs")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let timeout = arguments.duration("timeout") ?? .seconds(3)
    let checksReadiness = arguments.contains(option: "ready")
    let agents = AgentProbe.nodesWithAgents()
    guard agents.count < 2 || !arguments.positionals.isEmpty else {
      throw CommandError(
        "several agents run on this host; name one of \(agents.joined(separator: ", "))",
        code: .usage)
    }
    if let node = arguments.positionals.first ?? agents.first {
      guard let probe = try AgentProbe.ask(node, within: timeout) else {
        throw CommandError(
          "timed out: the agent of node '\(node)' did not answer within \(timeout.shortText)")
      }
      let state = probe.note?.state ?? "not started"
      try console.print(
        "\(probe.node): \(state)\(probe.hasContact ? "" : "; the orchestrator does not respond")")
      return !checksReadiness || probe.note?.isRunning == true ? .success : .failure
    }
    let answer = try await withTimeout(timeout) {
      try await arguments.onTopology { try await $0.directory() }
    }
    guard let directory = answer else {
      throw CommandError("timed out: the orchestrator did not answer within \(timeout.shortText)")
    }
    try console.print("\(directory.topology): \(directory.isRunning ? "running" : directory.phase)")
    return !checksReadiness || directory.isRunning ? .success : .failure
  }
}
