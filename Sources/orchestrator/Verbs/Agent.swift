import PipeRuntime
import PipeSupervision

/// `orchestrator agent`
struct Agent: Verb {
  let description = VerbDescription(
    "agent", "Starts a node where that is to run, as its orchestrator says",
    discussion:
      "With engine kubernetes each node's pod runs this. It looks for the orchestrator until that is there, and starts, "
      + "ends and reads the node's process for it. SIGTERM ends the node in order, and then the agent. The process ends "
      + "with the agent, however that ends.",
    options: [
      Option(
        "key", value: .file,
        "Its key pair, with the place and the key of its orchestrator: 'agent.key' of its secret"),
      Option(
        "address", value: .text("ADDRESS"),
        "Where the node is to listen, an IPv4 address in numbers. Default: 127.0.0.1"),
      Option("host", value: .text("NAME"), "The name of its host, as 'ps' is to show it"),
    ],
    positionals: [Positional("NODE", .node, .one, "The node")],
    examples: [
      (
        "orchestrator agent door --key agent.key",
        "Runs the door for its orchestrator, on this host"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let key = try arguments.required("key", of: description)
    let address = arguments.value("address") ?? Deployment.standardAddress
    guard IPv4Address(address) != nil else {
      throw CommandError(
        "--address: '\(address)' is no IPv4 address in numbers, like 10.0.0.7", code: .usage)
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
