import PipeRuntime

/// `orchestrator ls`
struct List: Verb {
  let description = VerbDescription(
    "ls", "Lists the running topologies",
    discussion:
      "One whose orchestrator was killed while its nodes live on is listed as orphaned: "
      + "'orchestrator up FILE' adopts them, 'orchestrator down' ends them.",
    options: [.output, Option("quiet", "q", "Writes the names only")],
    examples: [
      ("orchestrator ls", "Name, status, pid, uptime and file of each"),
      ("orchestrator ls -q", "Names only, for scripts"),
    ])

  /// A line of the list.
  private struct Entry {
    var name: String
    var status = "running"
    var pid: Int32?
    var startedAt: Timestamp?
    var file: String?
    var orphans: [String] = []

    init(_ topology: RunningTopology) {
      (name, pid, file) = (topology.name, topology.pid, topology.file)
      startedAt = topology.startedAt
    }

    init(_ topology: OrphanedTopology) {
      (name, status, file) = (topology.name, topology.status, topology.file)
      orphans = topology.nodes.map(\.node)
    }
  }

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let entries = (RunningTopology.all().map(Entry.init) + OrphanedTopology.all().map(Entry.init))
      .sorted { $0.name < $1.name }
    if arguments.flag("quiet") {
      for entry in entries { try console.print(entry.name) }
      return .success
    }
    try console.print(entries.map(record), as: arguments.format) {
      var table = Table(
        .init("NAME"), .init("STATUS"), .init("PID", .right), .init("UPTIME", .right),
        .init("FILE"))
      for entry in entries {
        table.add(
          entry.name, entry.status, entry.pid.map(String.init) ?? "-",
          entry.startedAt?.age.shortText ?? "-", entry.file ?? "-")
      }
      return table
    }
    return .success
  }

  private func record(_ entry: Entry) -> JSONValue {
    [
      "name": .string(entry.name),
      "status": .string(entry.orphans.isEmpty ? "running" : "orphaned"),
      "orphans": .array(entry.orphans.map { .string($0) }),
      "pid": entry.pid.map { .integer(Int64($0)) } ?? .null,
      "started": entry.startedAt.map { .string($0.description) } ?? .null,
      "file": entry.file.map { .string($0) } ?? .null,
    ]
  }
}

extension Timestamp {
  /// How long ago it was.
  fileprivate var age: Duration {
    .milliseconds(max(Timestamp.now.milliseconds - milliseconds, 0))
  }
}
