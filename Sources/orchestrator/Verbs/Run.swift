import PipeRuntime

/// The verb `orchestrator run`.
struct Run: Verb {
  let description = VerbDescription(
    "run", "Runs a topology in the foreground until it ends or ^C",
    discussion:
      "The first ^C stops the nodes gracefully, and the second kills them. On a terminal, shows "
      + "the screen of 'orchestrator ui'; when you leave the screen, the topology stops. With "
      + "--plain, --logs or --log-format, or without a terminal, writes a line for each change.",
    options: [
      Option(
        "name", value: .topology, "Runs the topology under this name. Default: the name in the file"
      ),
      .deployment, .noDependencies,
      Option(
        "timeout", value: .duration,
        "Stops the topology gracefully after this duration. Default: no limit"),
      Option("plain", "Writes lines instead of showing the screen"),
      Option("ui", "Shows the screen; fails without a terminal"),
      Option(
        "web", "Also serves the page of 'orchestrator web', and prints its address"),
      Option("logs", "Writes lines, including the output of the nodes"),
      .logFormat,
      Option(
        "service",
        "Runs for a service manager such as systemd, and reports to it when the nodes are running "
          + "(see install-service). If the orchestrator is killed, its nodes keep running, and the "
          + "next orchestrator adopts them"),
      Option(
        "lifeline",
        "Stops the topology gracefully when standard input is closed; for tests and scripts"),
      Option(
        "gated",
        "Lets the nodes take only the steps of a scenario; used by 'test'"),
      Option(
        "keys", value: .directory,
        "With engine kubernetes: the directory with the keys from 'export kubernetes --secrets'"
      ),
      Option(
        "own-address", value: .text("ADDRESS"),
        "With engine kubernetes: the address of the nodes that the orchestrator itself starts. "
          + "Default: 127.0.0.1"),
      Option("background", "Reports progress in JSON lines; used by 'up -d'"),
    ] + Self.pageOptions,
    positionals: [
      Positional("FILE", .file, .one, "The topology file"),
      Positional("NODE", .node, .any, "The nodes to start, with their dependencies. Default: all"),
    ],
    examples: [("orchestrator run topologies/elevator.yaml", "Runs the elevator; ^C stops it")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    var run = TopologyRun(
      file: arguments.positionals[0], name: arguments.value("name"),
      display: try display(arguments, console))
    run.deployment = arguments.value("deployment")
    run.keyDirectory = arguments.value("keys")
    run.address = arguments.value("own-address")
    run.nodes = Array(arguments.positionals.dropFirst())
    run.startsDependencies = !arguments.contains(option: "no-deps")
    run.showsOutput = arguments.contains(option: "logs")
    run.logFormat = arguments.logFormat ?? .text
    run.startTimeout = arguments.duration("timeout")
    run.pageArguments = try page(arguments)
    run.hasLifeline = arguments.contains(option: "lifeline")
    run.isGated = arguments.contains(option: "gated")
    return try run.run(console: console)
  }

  private static let pageOptions = Option.pageOptions.map { option in
    var option = option
    option.summary =
      "With --web: " + option.summary.prefix(1).lowercased() + option.summary.dropFirst()
    return option
  }

  /// Returns the arguments for the web page; `nil` if the user requests no page.
  private func page(_ arguments: ParsedArguments) throws(CommandError) -> [String]? {
    let inspectorArguments = InspectorProgram.inspectorArguments(arguments, of: Option.pageOptions)
    if arguments.contains(option: "web") { return inspectorArguments }
    guard let first = inspectorArguments.first else { return nil }
    throw CommandError("\(first) requires --web", code: .usage)
  }

  private func display(
    _ arguments: ParsedArguments, _ console: Console
  ) throws -> TopologyRun.Display {
    let conflictingOptions =
      ["background", "plain", "service", "logs", "log-format", "lifeline"].filter(
        arguments.contains(option:))
    if arguments.contains(option: "ui") {
      guard conflictingOptions.isEmpty else {
        throw UsageError.conflict("--ui", "--\(conflictingOptions[0])")
      }
      return .screen(try SignalDescriptor(ScreenRun.signals))
    }
    if arguments.contains(option: "background") { return .background }
    if arguments.contains(option: "service") { return .service }
    return conflictingOptions.isEmpty ? try .onTerminal(console) : .plain
  }
}
