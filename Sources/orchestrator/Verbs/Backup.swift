import PipeClient
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator backup`.
struct Backup: Verb {
  let description = VerbDescription(
    "backup", "Writes the journals of a running topology into a file, without stopping it",
    discussion:
      "All nodes are paused at the same time for a few milliseconds. The backup "
      + "contains the topology file, and the journals as of this moment: each event is either in "
      + "the outbox of its sender, or received. After 'orchestrator restore', the nodes continue "
      + "from this moment. Nodes without a journal start in their initial states. FILE is a tar "
      + "archive; an earlier backup with this name is replaced when the new backup is complete.",
    options: [
      .topology,
      .output,
      Option(
        "timeout", value: .duration,
        "Maximum time to wait until the backup is complete. Default: 1h"),
    ],
    positionals: [Positional("FILE", .file, .one, "The new backup, such as shop.tar")],
    examples: [("orchestrator backup shop.tar", "Backs up the only running topology")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try arguments.requireLocalTopology("'orchestrator backup' copies the journals")
    let file = arguments.positionals[0]
    let timeout = arguments.duration("timeout") ?? .seconds(3_600)
    let directories = try RunningTopology.choose(arguments.topology)
    let client = try TopologyClient.attach(to: directories.topology)
    defer { client.close() }
    // If the orchestrator is killed while the nodes are paused, this process resumes the nodes.
    let processes = try await client.directory().nodes.compactMap(\.pid).compactMap {
      AdoptedProcess(pid: $0)
    }
    let report: BackupReport
    do {
      report = try await client.backUp(into: FileSystem.absolutePath(file), within: timeout)
    } catch TopologyClientError.orchestratorGone(let topology) {
      InterruptedPause.end(of: processes, in: directories)
      FileSystem.removeTree(file + ".new")
      throw TopologyClientError.orchestratorGone(topology)
    }
    try console.print(
      try JSONValue(encoding: report), as: arguments.format, lines: [Self.summary(report, file)])
    return .success
  }

  private static func summary(_ report: BackupReport, _ file: String) -> String {
    let pause = Duration.nanoseconds(report.pauseNanoseconds).shortText
    var text =
      "\(report.topology): \(file) has \(report.nodes.count.counted("journal")), "
      + "\((report.byteCount + 1023) / 1024) KiB; the nodes were paused for \(pause)"
    if !report.nodesWithoutJournals.isEmpty {
      text += "; without a journal: \(report.nodesWithoutJournals.joined(separator: ", "))"
    }
    return text
  }
}

/// The verb `orchestrator restore`.
struct Restore: Verb {
  let description = VerbDescription(
    "restore", "Restores the journals of a topology from a backup",
    discussion:
      "Checks the backup, and writes its journals into the state directory of this user. The next "
      + "'orchestrator up' continues from there. Refuses if the topology is running or has "
      + "journals. Writes all journals, or none. Programs are not in the backup.",
    options: [
      .topology,
      .output,
      Option(
        "directory", value: .directory,
        "Also writes the topology file of the backup into this directory"),
    ],
    positionals: [
      Positional("FILE", .file, .one, "A backup that 'orchestrator backup' has written")
    ],
    examples: [
      (
        "orchestrator restore shop.tar", "Restores the journals, for the topology file of this host"
      ),
      ("orchestrator restore shop.tar --directory shop", "Also writes the topology file"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try arguments.requireLocalTopology("'orchestrator restore' writes journals")
    do {
      let restore = try TopologyRestore(reading: arguments.positionals[0])
      let manifest = restore.manifest
      let directories = try RuntimeDirectories(topology: arguments.topology ?? manifest.topology)
      let file = try restore.restore(
        to: directories, fileDirectory: arguments.value("directory"))
      let record: JSONValue = [
        "topology": .string(manifest.topology), "time": .string(manifest.time),
        "nodes": .array(manifest.nodes.sorted().map(JSONValue.string)),
        "file": file.map(JSONValue.string) ?? .null,
      ]
      let next = "orchestrator up \(file ?? "FILE")"
      try console.print(
        record, as: arguments.format,
        lines: [
          "\(manifest.topology): restored \(manifest.nodes.count.counted("journal")) of "
            + "\(manifest.time); continue with '\(next)'"
        ])
      return .success
    } catch let error as BackupError {
      throw CommandError("\(error)", code: error.isUsageError ? .usage : .failure)
    }
  }
}
