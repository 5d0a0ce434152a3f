import PipeRuntime

/// `orchestrator ps`
struct Processes: Verb {
  let description = VerbDescription(
    "ps", "Lists the nodes of a running topology with their processes",
    options: [
      .topology,
      .output,
      Option("quiet", "q", "Writes the nodes' names only"),
    ],
    examples: [
      (
        "orchestrator ps",
        "Node, status, pid, uptime, events, restarts, durability, version, state"
      ),
      (
        "orchestrator ps -o jsonl -p elevator",
        "The same, a JSON object per line"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let directory = try arguments.onTopology { try await $0.directory() }
    if arguments.flag("quiet") {
      for node in directory.nodes { try console.print(node.name) }
      return .success
    }
    let now = WallClock.nanoseconds
    try console.print(directory.nodes.map { $0.record(now: now) }, as: arguments.format) {
      Self.table(directory.nodes, now: now)
    }
    return .success
  }

  private static func table(_ nodes: [NodeInformation], now: Int64) -> Table {
    var table = Table(
      .init("NODE"), .init("STATUS"), .init("PID", .right), .init("UPTIME", .right),
      .init("EVENTS", .right), .init("RESTARTS", .right), .init("DURABILITY"),
      .init("VERSION", .right), .init("STATE"), statusColumn: 1)
    for node in nodes {
      let row = node.row(now: now)
      let hasState = node.status?.state != nil
      table.add(
        row.node, row.status, row.pid.map(String.init) ?? "-", row.uptime?.shortText ?? "-",
        String(row.events), String(row.restarts),
        [.machine, .composite].contains(node.kind) ? node.durability.rawValue : "-",
        hasState ? node.status.map { String($0.version) } ?? "-" : "-",
        row.stateCell)
    }
    return table
  }
}
