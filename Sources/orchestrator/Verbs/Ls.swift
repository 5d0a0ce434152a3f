import PipeRuntime

/// `orchestrator ls`
struct List: Verb {
  let description = VerbDescription(
    "ls", "Lists the running topologies",
    options: [.output, Option("quiet", "q", "Writes the names only")],
    examples: [
      ("orchestrator ls", "Name, pid, uptime and file of each"),
      ("orchestrator ls -q", "Names only, for scripts"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let topologies = RunningTopology.all()
    if arguments.flag("quiet") {
      for topology in topologies { try console.print(topology.name) }
      return .success
    }
    try console.print(topologies.map(record), as: arguments.format) {
      var table = Table(.init("NAME"), .init("PID", .right), .init("UPTIME", .right), .init("FILE"))
      for topology in topologies {
        table.add(
          topology.name, topology.pid.map(String.init) ?? "-",
          topology.uptime?.shortText ?? "-", topology.file ?? "-")
      }
      return table
    }
    return .success
  }

  private func record(_ topology: RunningTopology) -> JSONValue {
    [
      "name": .string(topology.name),
      "pid": topology.pid.map { .integer(Int64($0)) } ?? .null,
      "started": topology.startedAt.map { .string($0.description) } ?? .null,
      "file": topology.file.map { .string($0) } ?? .null,
    ]
  }
}

extension RunningTopology {
  /// How long the orchestrator has held the topology's lock.
  fileprivate var uptime: Duration? {
    startedAt.map { .milliseconds(max(Timestamp.now.milliseconds - $0.milliseconds, 0)) }
  }
}
