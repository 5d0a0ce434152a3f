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
