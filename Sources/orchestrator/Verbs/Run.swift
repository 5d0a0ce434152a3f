import PipeRuntime

/// `orchestrator run`
struct Run: Verb {
  let description = VerbDescription(
    "run", "Runs a topology in the foreground until it ends or ^C",
    discussion:
      "The first ^C stops the nodes in order, the second kills them. On a terminal a live "
      + "view of the nodes is shown, otherwise a line for each change.",
    options: [
      Option("name", value: .topology, "Runs it under this name. Default: the name in the file"),
      .noDependencies,
      Option("timeout", value: .duration, "Stops it in order after this time. Default: no limit"),
      Option("plain", "Writes lines instead of the live view"),
      Option("logs", "Shows the nodes' output among the lines"),
      Option("lifeline", "Stops in order when standard input ends: for tests and scripts"),
      Option("background", "What 'up -d' starts: tells its progress in JSON lines"),
    ],
    positionals: [
      Positional("FILE", .file, .one, "The topology file"),
      Positional("NODE", .node, .any, "Those to start, with what they need. Default: all"),
    ],
    examples: [("orchestrator run topologies/elevator.yaml", "Runs the elevator; ^C stops it")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let isLive = console.canRedraw && !arguments.flag("plain")
    var run = TopologyRun(
      file: arguments.positionals[0], name: arguments.value("name"),
      display: arguments.flag("background") ? .background : isLive ? .live : .plain)
    run.nodes = Array(arguments.positionals.dropFirst())
    run.startsDependencies = !arguments.flag("no-deps")
    run.showsOutput = arguments.flag("logs")
    run.timeout = arguments.duration("timeout")
    run.hasLifeline = arguments.flag("lifeline")
    return try run.run(console: console)
  }
}
