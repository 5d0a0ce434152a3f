import PipeRuntime

/// `orchestrator ps`
struct Processes: Verb {
  let description = VerbDescription(
    "ps", "Lists the nodes of a running topology with their processes",
    discussion:
      "CPU is the processor time of the process since its start, MEMORY what it holds now; with --key neither "
      + "is known. Of "
      + "composites that share a process, the row of the first shows its figures. Long reasons are cut, "
      + "and on a terminal too narrow for all columns the least needed are left out and states are cut: "
      + "'status' and 'describe' have all of them.",
    options: [
      .topology, .output,
      Option("quiet", "q", "Writes the nodes' names only"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes and composites. Default: all")],
    examples: [
      (
        "orchestrator ps",
        "Node, status, pid, uptime, events, restarts, CPU, memory, durability, version, state"
      ),
      ("orchestrator ps door motor", "The rows of two nodes"),
      (
        "orchestrator ps -o jsonl -p elevator",
        "A JSON object per line, with cpuSeconds and memoryBytes"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let (directory, isHere) = try await arguments.onTopology {
      (try await $0.directory(), $0.remote == nil)
    }
    let nodes = try directory.nodes(named: arguments.positionals)
    if arguments.flag("quiet") {
      for node in nodes { try console.print(node.name) }
      return .success
    }
    let now = WallClock.nanoseconds
    // The numbers of another host's processes are those of others here.
    let pids = Set(isHere ? nodes.compactMap(\.pid) : [])
    let usage = Dictionary(uniqueKeysWithValues: pids.map { ($0, ProcessUsage(pid: $0)) })
      .compactMapValues(\.self)
    let records = nodes.map { node in
      Self.record(of: node, using: node.pid.flatMap { usage[$0] }, now: now)
    }
    try console.print(records, as: arguments.format) {
      NodeRow.table(nodes.rows(now: now, usage: usage))
    }
    return .success
  }

  private static func record(
    of node: NodeInformation, using usage: ProcessUsage?, now: Int64
  ) -> JSONValue {
    guard case .object(var record) = node.record(now: now) else { return .null }
    record["cpuSeconds"] = usage.map { .number(Double($0.cpu.wholeMilliseconds) / 1_000) } ?? .null
    record["memoryBytes"] = usage.map { .integer(Int64($0.memoryByteCount)) } ?? .null
    return .object(record)
  }
}
