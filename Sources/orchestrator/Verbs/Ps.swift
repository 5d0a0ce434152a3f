import PipeRuntime

/// The verb `orchestrator ps`.
struct Processes: Verb {
  let description = VerbDescription(
    "ps", "Lists the nodes of a running topology with their processes",
    discussion:
      "PROGRAM is a hash of the program that the process runs. "
      + "CPU is the processor time that the process has used since its start, and MEMORY is the "
      + "memory that it uses now. With --key, CPU and MEMORY are unknown. If composites share "
      + "a process, only the row of the first composite shows the values of the process. Long "
      + "reasons are cut. On a narrow terminal, states are cut, and the least important "
      + "columns are omitted; 'status' and 'describe' show all values in full. If something is "
      + "wrong, standard error says which node is the cause.",
    options: [
      .topology, .output,
      Option("quiet", "q", "Prints only the names of the nodes"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes and composites. Default: all")],
    examples: [
      (
        "orchestrator ps",
        "Lists program, pid, uptime, events, restarts, CPU, memory, durability, version and state"
      ),
      ("orchestrator ps door motor", "Lists two nodes"),
      (
        "orchestrator ps -o jsonl -p elevator",
        "Prints one JSON object per line, with cpuSeconds and memoryBytes"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let (directory, isLocal) = try await arguments.onTopology {
      (try await $0.directory(), $0.remote == nil)
    }
    let nodes = try directory.nodes(named: arguments.positionals)
    if arguments.contains(option: "quiet") {
      for node in nodes { try console.print(node.name) }
      return .success
    }
    let now = WallClock.nanoseconds
    // On this host, a process id from another host would refer to an unrelated process.
    let pids = Set(isLocal ? nodes.compactMap(\.pid) : [])
    let usage = Dictionary(uniqueKeysWithValues: pids.map { ($0, ProcessUsage(pid: $0)) })
      .compactMapValues(\.self)
    let records = nodes.map { node in
      Self.record(of: node, using: node.pid.flatMap { usage[$0] }, now: now)
    }
    try console.print(records, as: arguments.format) {
      NodeRow.table(nodes.rows(now: now, usage: usage))
    }
    let health = TopologyHealth(directory, at: now)
    if arguments.format == .text, arguments.positionals.isEmpty, health.severity != nil {
      for line in console.errorStyle.lines(of: health, topology: directory.topology) {
        console.note(line)
      }
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

/// The values of one node in the tables of `ps`.
package struct NodeRow: Hashable, Sendable {
  /// Data about a node's process.
  package struct Process: Hashable, Sendable {
    package var pid: Int32?
    package var uptime: Duration?
    package var eventCount: UInt64
    package var restartCount: UInt64
    package var usage: ProcessUsage?
    /// The version of the program.
    package var program: String?

    package init(
      pid: Int32? = nil, uptime: Duration? = nil, events: UInt64 = 0, restarts: UInt64 = 0,
      usage: ProcessUsage? = nil, program: String? = nil
    ) {
      self.program = program
      self.pid = pid
      self.uptime = uptime
      self.eventCount = events
      self.restartCount = restarts
      self.usage = usage
    }
  }

  package var node: String
  /// The phase of the node, such as `running` or `backing off`.
  package var phase: String
  /// The machine's state as text; empty if it is unknown.
  package var state: String
  /// The reason why the state is unknown; empty if the state is known or no reason is known.
  package var reason: String
  /// The data about the process. If several composites share a process, only the row of the first
  /// composite contains the data; the rows of the other composites contain `nil`.
  package var process: Process?
  /// The durability; `nil` if the node has no state that can be recorded in a journal.
  package var durability: Durability?
  /// The version of the node's state; `nil` if the node has no state.
  package var version: UInt64?
  /// The place of the node; `nil` if there is no deployment, or the node runs on the orchestrator's
  /// host.
  package var place: String?

  package init(
    node: String, phase: String, state: String = "", reason: String = "",
    process: Process? = Process(), durability: Durability? = nil, version: UInt64? = nil,
    place: String? = nil
  ) {
    self.place = place
    self.node = node
    self.phase = phase
    self.state = state
    self.reason = reason
    self.process = process
    self.durability = durability
    self.version = version
  }

  /// The maximum width of a reason in a table. The verb `status` shows the complete reason.
  private static let reasonWidth = 60

  private var stateCell: String {
    state.isEmpty ? reason.isEmpty ? "-" : reason.cut(to: Self.reasonWidth) : state
  }

  // MARK: Tables of nodes

  private enum Field: CaseIterable {
    case node, place, status, program, pid, uptime, events, restarts, cpu, memory, durability
    case version, state

    /// The column for this field. On a narrow terminal, the columns with the lowest `dropOrder` are
    /// omitted first.
    var column: Table.Column {
      switch self {
      case .node: .init("NODE")
      case .place: .init("PLACE", dropOrder: 5)
      case .status: .init("STATUS")
      case .program: .init("PROGRAM", dropOrder: 0)
      case .pid: .init("PID", .right, dropOrder: 3)
      case .uptime: .init("UPTIME", .right, dropOrder: 6)
      case .events: .init("EVENTS", .right, dropOrder: 8)
      case .restarts: .init("RESTARTS", .right, dropOrder: 4)
      case .cpu: .init("CPU", .right, dropOrder: 1)
      case .memory: .init("MEMORY", .right, dropOrder: 2)
      case .durability: .init("DURABILITY", dropOrder: 5)
      case .version: .init("VERSION", .right, dropOrder: 7)
      case .state: .init("STATE", minimumWidth: 30)
      }
    }
  }

  private func cell(_ field: Field) -> String {
    let text: String? =
      switch field {
      case .node: node
      case .place: place
      case .status: phase
      case .program: process?.program
      case .pid: process?.pid.map(String.init)
      case .uptime: process?.uptime?.shortText
      case .events: process.map { String($0.eventCount) }
      case .restarts: process.map { String($0.restartCount) }
      case .cpu: process?.usage?.cpu.shortText
      case .memory: process?.usage?.memoryText
      case .durability: durability?.rawValue
      case .version: version.map(String.init)
      case .state: stateCell
      }
    return text ?? "-"
  }

  private static func table(_ rows: [NodeRow], _ fields: [Field]) -> Table {
    var table = Table(
      fields.map(\.column), phaseColumnIndex: fields.firstIndex(of: .status) ?? 1)
    for row in rows { table.add(fields.map(row.cell)) }
    return table
  }

  /// Returns the table of `ps`. Omits the column of places if no place is known, and the column of
  /// programs if no version is known.
  package static func table(_ rows: [NodeRow]) -> Table {
    let hasPlacements = rows.contains { $0.place != nil }
    let hasPrograms = rows.contains { $0.process?.program != nil }
    return table(
      rows,
      Field.allCases.filter {
        ($0 != .place || hasPlacements) && ($0 != .program || hasPrograms)
      })
  }
}

extension [NodeInformation] {
  /// The rows of `ps`.
  /// - Parameters:
  ///   - now: The time in nanoseconds since 1970.
  ///   - usage: The resource usage of each process, by its process id.
  package func rows(now: Int64, usage: [Int32: ProcessUsage] = [:]) -> [NodeRow] {
    var processes: Set<String> = []
    return map { node in
      // Composites that share a process share an inbox.
      let isFirst = node.kind != .composite || processes.insert(node.inboxName).inserted
      return NodeRow(
        node: node.name, phase: node.phase, state: node.shownState ?? "",
        reason: node.shownState == nil ? node.stateText : "",
        process: !isFirst
          ? nil
          : NodeRow.Process(
            pid: node.pid, uptime: node.uptime(now: now), events: node.status?.events ?? 0,
            restarts: node.restarts,
            usage: node.hostName == nil ? node.pid.flatMap { usage[$0] } : nil,
            program: node.shortProgramVersion),
        durability: [.machine, .composite].contains(node.kind) ? node.durability : nil,
        version: node.status.flatMap { $0.state == nil ? nil : $0.version },
        place: node.placeText)
    }
  }
}

extension NodeInformation {
  /// The first digits of the program's version.
  var shortProgramVersion: String? { programVersion.map { String($0.prefix(8)) } }

  /// The state as text for users. If the state is unknown, the reason, or an empty text.
  package var stateText: String {
    shownState ?? reason ?? ""
  }

  /// The place and the host of the node; `nil` if both are unknown.
  ///
  /// For example: `front`, or `front (fh1)` if the engine has selected the host `fh1`.
  fileprivate var placeText: String? {
    guard let place else { return hostName.map { "(\($0))" } }
    return hostName.map { "\(place) (\($0))" } ?? place
  }

  fileprivate var shownState: String? {
    status?.state.map { $0.stateText(fields: stateFields) + doubtText }
  }

  /// The transactions in doubt, such as `  IN DOUBT in 3.17`, or `  IN DOUBT in 3.17 (orders[4711],
  /// and 2 more instances)`; empty if the node is not in doubt.
  private var doubtText: String {
    let transactions = Set(doubts.map(\.transaction)).sorted().map(\.description)
    let instances = doubts.filter { InstanceName.isInstance($0.participant) }
      .map { $0.participant.printable + $0.otherInstancesText }
    return transactions.isEmpty
      ? ""
      : "  IN DOUBT in \(transactions.joined(separator: ", "))"
        + (instances.isEmpty ? "" : " (\(instances.joined(separator: "; ")))")
  }

  /// Returns how long the node's process has been running; `nil` if there is no process.
  /// - Parameter now: The time in nanoseconds since 1970.
  package func uptime(now: Int64) -> Duration? {
    startedAt.map { .nanoseconds(max(0, now - $0)) }
  }
}

extension NodeInformation {
  /// Returns the orchestrator's data about the node as JSON. This is the output of `status -o
  /// json`, and most of the output of `ps -o json`.
  /// - Parameter now: The time in nanoseconds since 1970.
  package func record(now: Int64) -> JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(name), "kind": .string(kind.rawValue),
      "machine": .optional(hosts), "program": .string(program),
      "programVersion": .optional(programVersion),
      "phase": .string(phase), "running": .bool(isRunning),
      "reason": .optional(reason),
      "durability": .string(durability.rawValue),
      "journal": .optional(journal),
      "pid": pid.map { .integer(Int64($0)) } ?? .null, "incarnation": .count(incarnation),
      "restarts": .count(restarts),
      "started": startedAt.map { .string(Timestamp(nanoseconds: $0).description) } ?? .null,
      "uptime": uptime(now: now).map { .number(Double($0.wholeMilliseconds) / 1000) } ?? .null,
      "state": .null, "doubts": .array(doubts.map(\.record)),
    ]
    if let within { record["within"] = .string(within) }
    if let status { record.merge(status.record) { _, new in new } }
    return .object(record)
  }
}

extension NodeStatus {
  /// The counters, without the state and its version.
  var counters: JSONValue {
    .object(record.filter { !["state", "version", "recentDeadLetters"].contains($0.key) })
  }

  fileprivate var record: [String: JSONValue] {
    [
      "state": state ?? .null, "version": .count(version), "events": .count(events),
      "refused": .count(refused), "ignored": .count(ignored ?? 0),
      "deadLetters": .count(deadLetters),
      "deadLettersLost": .count(deadLettersLost ?? 0),
      "recentDeadLetters": (try? JSONValue(encoding: recentDeadLetters)) ?? [],
      "unconnected": .count(unconnected), "gaps": .count(gaps),
      "invalidFrames": .count(invalidFrames),
      "effects": .integer(Int64(effects)), "timer": timer?.record ?? .null,
      "blocked": .texts(blocked),
      "outs": .array(outs.map(\.record)), "ins": .array(ins.map(\.record)),
    ]
  }
}

extension NodeStatus.Pipe {
  fileprivate var record: JSONValue {
    var members: [String: JSONValue] = [
      "pipe": .string(name), "events": .count(events), "applied": .count(applied),
      "waiting": .integer(Int64(waiting)), "capacity": .integer(Int64(capacity)),
    ]
    if let lost { members["lost"] = .count(lost) }
    if let unsendable { members["unsendable"] = .count(unsendable) }
    if let ignored { members["ignored"] = .count(ignored) }
    return .object(members)
  }
}
