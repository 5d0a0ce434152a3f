import PipeRuntime

/// The verb `orchestrator ls`.
struct List: Verb {
  let description = VerbDescription(
    "ls", "Lists the running topologies",
    discussion:
      "A topology is listed as orphaned if its orchestrator was killed and its nodes keep "
      + "running: 'orchestrator up FILE', with the same --deployment, adopts the nodes; "
      + "'orchestrator down' ends them. A topology is listed as silent if its orchestrator "
      + "does not answer within 2 s, because it is suspended or hangs: 'orchestrator down "
      + "--force' ends the topology.",
    options: [.output, Option("quiet", "q", "Prints only the names")],
    examples: [
      ("orchestrator ls", "Lists name, status, pid, uptime and file of each topology"),
      ("orchestrator ls -q", "Lists only the names, for scripts"),
    ])

  /// A line in the output of `ls`.
  private struct Entry {
    var name: String
    var status = "running"
    var pid: Int32?
    var startedAt: Timestamp?
    var file: String?
    var deployment: String?
    var orphans: [String] = []

    init(_ topology: RunningTopology, isSilent: Bool) {
      (name, pid, file) = (topology.name, topology.pid, topology.topologyFile)
      deployment = topology.deploymentFile
      if isSilent { status = "silent" }
      startedAt = topology.startedAt
    }

    init(_ topology: OrphanedTopology) {
      (name, status, file) = (topology.name, topology.status, topology.topologyFile)
      deployment = topology.deploymentFile
      orphans = topology.nodes.map(\.node)
    }
  }

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let running = RunningTopology.all()
    let orphaned = OrphanedTopology.all().map(Entry.init)
    if running.isEmpty, orphaned.isEmpty, let note = RuntimeRoots().fallbackNote {
      console.note("note: \(note)")
    }
    if arguments.contains(option: "quiet") {
      for name in (running.map(\.name) + orphaned.map(\.name)).sorted() { try console.print(name) }
      return .success
    }
    let silent = await Self.silentTopologies(among: running.map(\.name))
    let entries = (running.map { Entry($0, isSilent: silent.contains($0.name)) } + orphaned)
      .sorted { $0.name < $1.name }
    try console.print(entries.map(record), as: arguments.format) {
      var table = Table(
        .init("NAME"), .init("STATUS"), .init("PID", .right, dropOrder: 1),
        .init("UPTIME", .right, dropOrder: 2), .init("FILE", minimumWidth: 20, keepsEnd: true))
      for entry in entries {
        table.add(
          entry.name, entry.status, entry.pid.map(String.init) ?? "-",
          entry.startedAt?.age.shortText ?? "-", entry.file ?? "-")
      }
      return table
    }
    return .success
  }

  /// The maximum wait for the answer of an orchestrator.
  private static let answerTimeout: Duration = .seconds(2)

  /// Returns those topologies whose orchestrators do not answer.
  private static func silentTopologies(among names: [String]) async -> Set<String> {
    await withTaskGroup(of: String?.self) { group in
      for name in names { group.addTask { await isSilent(name) ? name : nil } }
      return await group.reduce(into: []) { silent, name in
        if let name { silent.insert(name) }
      }
    }
  }

  private static func isSilent(_ name: String) async -> Bool {
    do {
      let directories = try RuntimeDirectories(topology: name)
      let client = try TopologyClient(
        topology: name, control: directories.endpoint(.control), answerTimeout: answerTimeout)
      defer { client.close() }
      _ = try await client.command(.composites)
      return false
    } catch TopologyClientError.notAnswering {
      return true
    } catch {
      // The orchestrator has ended since the list was made.
      return false
    }
  }

  private func record(_ entry: Entry) -> JSONValue {
    [
      "name": .string(entry.name),
      "status": .string(entry.orphans.isEmpty ? entry.status : "orphaned"),
      "orphans": .texts(entry.orphans),
      "pid": entry.pid.map { .integer(Int64($0)) } ?? .null,
      "started": entry.startedAt.map { .string($0.description) } ?? .null,
      "file": .optional(entry.file),
      "deployment": .optional(entry.deployment),
    ]
  }
}
