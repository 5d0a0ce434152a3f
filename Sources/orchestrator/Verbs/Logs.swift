import PipeClient
import PipeRuntime
import PipeSupervision

/// `orchestrator logs`
struct Logs: Verb {
  let description = VerbDescription(
    "logs", "Shows the logs of nodes, in order of time",
    discussion:
      "Logs stay on the host after the topology ends. -f ends with the topology. Times are "
      + "local on a terminal, and UTC in pipes and JSON.",
    options: [
      .topology, .output,
      Option("follow", "f", "Follows new lines"),
      Option(
        "since", value: .moment,
        "Shows only lines since a time: an age such as 5m, or a time such as 14:30 today or "
          + "'2026-11-20 14:30', also with Z or an offset. Default: all"),
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
    let selectedNodes = nodes.isEmpty ? nil : nodes
    let follows = arguments.flag("follow")
    if case .remote = try arguments.target {
      let client = try TopologyClient.attach(to: arguments.target)
      defer { client.close() }
      let known = try await client.directory(fresh: false).nodes.map(\.name) + ["orchestrator"]
      let logs = client.records.logs(of: selectedNodes, follows: follows)
      return try await show(logs, of: selectedNodes ?? known, arguments, console, client: client) {
        false
      }
    }
    let directories = try StoredTopology.findDirectories(arguments, requiredContent: "logs")
    try check(nodes, in: directories)
    let known = LogReader.nodes(in: directories.logs)
    let logs = TopologyRecords.files(directories).logs(of: selectedNodes, follows: follows)
    return try await show(logs, of: selectedNodes ?? known, arguments, console) {
      RunningTopology.find(directories) == nil
    }
  }

  /// - Parameters:
  ///   - client: The client of a topology on another host.
  ///   - hasEnded: Returns whether the topology has ended, as far as this host can know.
  private func show(
    _ logs: TopologyLogs, of nodes: [String], _ arguments: ParsedArguments, _ console: Console,
    client: TopologyClient? = nil, hasEnded: () -> Bool
  ) async throws -> ExitCode {
    var logs = logs
    var printer = LogPrinter(
      format: arguments.format, showsTime: arguments.flag("timestamps"),
      showsNode: !arguments.flag("no-prefix"), nodes: nodes)
    let follows = arguments.flag("follow")
    let readInterval = client == nil ? Self.readInterval : Self.remoteReadInterval
    var entries: [LogEntry] = []
    reading: while true {
      // Checked before reading, so that lines written before the end are still read.
      let isLastRead = !follows || hasEnded()
      if isLastRead { logs.end() }
      do {
        let (new, hasMore) = try await logs.next(
          lines: arguments.count("lines") ?? arguments.count("tail"),
          since: arguments.moment("since")?.milliseconds)
        if arguments.format == .json {
          entries += new
        } else {
          for entry in new { try console.print(printer.line(entry, style: console.style)) }
          try console.flush()
        }
        if hasMore { continue }
      } catch TopologyClientError.notAnswering where follows {
        // The orchestrator may answer again.
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
  /// The pause between two requests to the orchestrator of another host.
  private static let remoteReadInterval: Duration = .milliseconds(250)

  private func check(_ nodes: [String], in directories: RuntimeDirectories) throws {
    let known = LogReader.nodes(in: directories.logs)
    for node in nodes where !known.contains(node) {
      throw CommandError(
        LogReader.unknown(node, of: directories.topology, known: known), code: .usage)
    }
  }
}

/// Formats log entries for a person or a program.
package struct LogPrinter {
  let format: OutputFormat
  let showsTime: Bool
  let showsNode: Bool
  private var colors: [String: Int]
  private let width: Int

  package init(format: OutputFormat, showsTime: Bool, showsNode: Bool, nodes: [String]) {
    self.format = format
    self.showsTime = showsTime
    self.showsNode = showsNode
    width = nodes.map(\.displayWidth).max() ?? 0
    colors = Dictionary(nodes.enumerated().map { ($1, $0) }) { first, _ in first }
  }

  package mutating func line(_ entry: LogEntry, style: Style) -> String {
    guard format == .text else { return entry.record.text }
    var line = ""
    if showsNode {
      let color = colors[entry.node] ?? colors.count
      colors[entry.node] = color
      line += style.number(color, entry.node.padded(to: width) + " |") + " "
    }
    if showsTime { line += style.dim(style.text(of: entry.time)) + " " }
    return line + (entry.stream == .note ? style.dim(entry.text) : entry.text)
  }
}

extension LogEntry {
  /// The JSON form of `-o json` and `-o jsonl`.
  package var record: JSONValue {
    [
      "node": .string(node), "time": .string(time.description),
      "stream": .string(stream.rawValue), "text": .string(text),
    ]
  }
}
