/// `orchestrator up`
struct Up: Verb {
  let description = VerbDescription(
    "up", "Starts a topology, in the background with -d",
    discussion:
      "With --wait it returns when every node runs, or with exit code 124 when that takes "
      + "too long. 'orchestrator monitor' is the live view of one in the background. Its nodes go on "
      + "when their orchestrator is killed; started again, it adopts those that the file has not "
      + "changed, as they are.",
    options: [
      Option("detach", "d", "Returns when it is started; it goes on in the background"),
      Option("wait", "Returns when all nodes run; implies -d"),
      Option("wait-timeout", value: .duration, "The longest wait of --wait. Default: 60s"),
      Option("name", value: .topology, "Runs it under this name. Default: the name in the file"),
      Option("plain", "Writes lines instead of the live view"),
    ],
    positionals: [
      Positional("FILE", .file, .optional, "The topology file. Default: topology.yaml here")
    ],
    examples: [
      (
        "orchestrator up -d topologies/elevator.yaml",
        "Starts the elevator in the background"
      ),
      (
        "orchestrator up --wait --wait-timeout 10s",
        "Starts topology.yaml and returns when it runs"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let file = arguments.positionals.first ?? "topology.yaml"
    guard arguments.flag("detach") || arguments.flag("wait") else {
      let isLive = console.canRedraw && !arguments.flag("plain")
      return try TopologyRun(
        file: file, name: arguments.value("name"), display: isLive ? .live : .plain
      ).run(console: console)
    }
    let wait = arguments.flag("wait") ? arguments.duration("wait-timeout") ?? .seconds(60) : nil
    return try BackgroundRun(file: file, name: arguments.value("name"), waitsFor: wait)
      .start(console: console)
  }
}
