import PipeClient
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator logs`.
struct Logs: Verb {
  let description = VerbDescription(
    "logs", "Shows the logs of nodes, in order of time",
    discussion:
      "The logs stay on the host after the topology has ended. With -f, the command ends when "
      + "the topology ends. Times are local on a terminal, and UTC in redirected output and JSON.",
    options: [
      .topology, .output,
      Option("follow", "f", "Follows new lines"),
      Option(
        "since", value: .moment,
        "Shows only lines since this time: an age such as 5m, a time of today such as 14:30, or "
          + "a date and time such as '2026-11-20 14:30'. Z or an offset can follow. Default: all "
          + "lines"),
      Option("lines", "n", value: .count("N"), "Shows the last N lines of each node. Default: all"),
      Option("tail", value: .count("N"), "Same as --lines"),
      Option("timestamps", "t", "Shows the time before each line"),
      Option("no-prefix", "Omits the names of the nodes"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes. Default: all")],
    examples: [
      ("orchestrator logs -f door", "Shows and follows the log of the door"),
      ("orchestrator logs --tail 20 -p elevator", "Shows the last 20 lines of every node"),
      ("orchestrator logs --since 5m -t", "Shows the lines of the last five minutes, with times"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let nodes = arguments.positionals
    func select(among known: [String]) -> [String]? {
      nodes.isEmpty ? nil : NodeShard.processes(of: nodes, among: known)
    }
    let follows = arguments.contains(option: "follow")
    if case .remote = try arguments.target {
      let client = try TopologyClient.attach(to: arguments.target)
      defer { client.close() }
      let known = try await client.directory(fresh: false).nodes.map(\.name) + ["orchestrator"]
      let selectedNodes = select(among: known)
      let logs = client.records.logs(of: selectedNodes, follows: follows)
      return try await show(logs, of: selectedNodes ?? known, arguments, console, client: client) {
        false
      }
    }
    let directories = try StoredTopology.findDirectories(arguments, requiredContent: "logs")
    let known = LogReader.nodesWithLogs(in: directories.logs)
    let selectedNodes = select(among: known)
    try check(selectedNodes ?? [], in: directories)
    let logs = TopologyRecords.files(directories).logs(of: selectedNodes, follows: follows)
    return try await show(logs, of: selectedNodes ?? known, arguments, console) {
      RunningTopology.find(directories) == nil
    }
  }

  /// - Parameters:
  ///   - client: The client of a topology on another host; `nil` for a topology on this host.
  ///   - hasEnded: Returns whether the topology has ended. If this host cannot find that out,
  ///     returns `false`.
  private func show(
    _ logs: TopologyLogs, of nodes: [String], _ arguments: ParsedArguments, _ console: Console,
    client: TopologyClient? = nil, hasEnded: () -> Bool
  ) async throws -> ExitCode {
    var logs = logs
    var printer = LogPrinter(
      format: arguments.format, showsTime: arguments.contains(option: "timestamps"),
      showsNode: !arguments.contains(option: "no-prefix"), nodes: nodes)
    let follows = arguments.contains(option: "follow")
    let readInterval = client == nil ? Self.readInterval : Self.remoteReadInterval
    var entries: [LogEntry] = []
    reading: while true {
      // The check is made before the read, so that the last read also finds lines that were written
      // before the end.
      let isLastRead = !follows || hasEnded()
      if isLastRead { logs.end() }
      do {
        let (new, hasMore) = try await logs.next(
          lines: arguments.countValue("lines") ?? arguments.countValue("tail"),
          since: arguments.moment("since")?.milliseconds)
        if arguments.format == .json {
          entries += new
        } else {
          for entry in new { try console.print(printer.line(entry, style: console.style)) }
          try console.flush()
        }
        if hasMore { continue }
      } catch TopologyClientError.notAnswering where follows {
        // The orchestrator may answer later, so the requests are repeated.
      } catch TopologyClientError.orchestratorGone where follows {
        if let loss = client?.connectionLossError { throw loss }
        break reading
      }
      if isLastRead || console.waitUntilClosed(timeout: readInterval) { break }
    }
    if arguments.format == .json { try console.print(.array(entries.map(\.record))) }
    return .success
  }

  /// The pause between two reads of the files.
  private static let readInterval: Duration = .milliseconds(100)
  /// The pause between two requests to an orchestrator on another host.
  private static let remoteReadInterval: Duration = .milliseconds(250)

  private func check(_ nodes: [String], in directories: RuntimeDirectories) throws {
    let known = LogReader.nodesWithLogs(in: directories.logs)
    for node in nodes where !known.contains(node) {
      throw CommandError(
        LogReader.unknownNodeMessage(node, of: directories.topology, known: known), code: .usage)
    }
  }
}

/// Formats log entries for users and programs.
package struct LogPrinter {
  let format: OutputFormat
  let showsTime: Bool
  let showsNode: Bool
  private var colorsByNode: [String: Int]
  private let width: Int

  package init(format: OutputFormat, showsTime: Bool, showsNode: Bool, nodes: [String]) {
    self.format = format
    self.showsTime = showsTime
    self.showsNode = showsNode
    width = nodes.map(\.displayWidth).max() ?? 0
    colorsByNode = Dictionary(nodes.enumerated().map { ($1, $0) }) { first, _ in first }
  }

  package mutating func line(_ entry: LogEntry, style: Style) -> String {
    guard format == .text else { return entry.record.text }
    var line = ""
    if showsNode {
      let color = colorsByNode[entry.node] ?? colorsByNode.count
      colorsByNode[entry.node] = color
      line += style.colorByIndex(color, entry.node.padded(to: width) + " |") + " "
    }
    if showsTime { line += style.dim(style.text(of: entry.time)) + " " }
    return line + (entry.stream == .note ? style.dim(entry.text) : entry.text)
  }
}

extension LogEntry {
  /// The JSON for `-o json` and `-o jsonl`.
  package var record: JSONValue {
    [
      "node": .string(node), "time": .string(time.description),
      "stream": .string(stream.rawValue), "text": .string(text),
    ]
  }
}
