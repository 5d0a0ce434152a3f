import PipeRuntime

/// `orchestrator ps`
struct Processes: Verb {
  let description = VerbDescription(
    "ps", "Lists the nodes of a running topology with their processes",
    discussion:
      "CPU is the processor time of the process since its start, MEMORY its current memory; "
      + "both are unknown with --key. If composites share a process, only the row of the "
      + "first composite shows its figures. Long reasons are shortened; on a narrow terminal, "
      + "states are shortened and the least important columns are omitted: 'status' and "
      + "'describe' show them in full.",
    options: [
      .topology, .output,
      Option("quiet", "q", "Prints only the names of the nodes"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes and composites. Default: all")],
    examples: [
      (
        "orchestrator ps",
        "Lists node, status, pid, uptime, events, restarts, CPU, memory, durability, "
          + "version, state"
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
    if arguments.flag("quiet") {
      for node in nodes { try console.print(node.name) }
      return .success
    }
    let now = WallClock.nanoseconds
    // Process ids of another host mean other processes on this one.
    let pids = Set(isLocal ? nodes.compactMap(\.pid) : [])
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

/// The values of one node in the tables of `ps`.
package struct NodeRow: Hashable, Sendable {
  /// Figures about a node's process.
  package struct Process: Hashable, Sendable {
    package var pid: Int32?
    package var uptime: Duration?
    package var events: UInt64
    package var restarts: UInt64
    package var usage: ProcessUsage?

    package init(
      pid: Int32? = nil, uptime: Duration? = nil, events: UInt64 = 0, restarts: UInt64 = 0,
      usage: ProcessUsage? = nil
    ) {
      self.pid = pid
      self.uptime = uptime
      self.events = events
      self.restarts = restarts
      self.usage = usage
    }
  }

  package var node: String
  /// The lifecycle state: `running`, `backing off`.
  package var status: String
  /// The machine's state as text; empty if it is not known.
  package var state: String
  /// The reason why the state is not known; empty if it is known or there is no reason to show.
  package var reason: String
  /// `nil` if another row shows the process: the row of the first of several composites in one
  /// process.
  package var process: Process?
  /// `nil` if the node has no state to keep.
  package var durability: Durability?
  /// `nil` if there is no state.
  package var version: UInt64?
  /// The host placement in the deployment; `nil` without a deployment, and for nodes on the
  /// orchestrator's host.
  package var place: String?

  package init(
    node: String, status: String, state: String = "", reason: String = "",
    process: Process? = Process(), durability: Durability? = nil, version: UInt64? = nil,
    place: String? = nil
  ) {
    self.place = place
    self.node = node
    self.status = status
    self.state = state
    self.reason = reason
    self.process = process
    self.durability = durability
    self.version = version
  }

  /// The maximum width of a reason in a table; `status` shows all of it.
  private static let reasonWidth = 60

  private var stateCell: String {
    state.isEmpty ? reason.isEmpty ? "-" : reason.cut(to: Self.reasonWidth) : state
  }

  // MARK: Tables

  private enum Field: CaseIterable {
    case node, place, status, pid, uptime, events, restarts, cpu, memory, durability, version, state

    /// Narrow terminals leave out the columns of the lowest ranks first.
    var column: Table.Column {
      switch self {
      case .node: .init("NODE")
      case .place: .init("PLACE", dropOrder: 5)
      case .status: .init("STATUS")
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
      case .status: status
      case .pid: process?.pid.map(String.init)
      case .uptime: process?.uptime?.shortText
      case .events: process.map { String($0.events) }
      case .restarts: process.map { String($0.restarts) }
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
      fields.map(\.column), statusColumn: fields.firstIndex(of: .status) ?? 1)
    for row in rows { table.add(fields.map(row.cell)) }
    return table
  }

  /// Returns the table of `ps` with all columns. The column of host placements is left out if it is
  /// empty.
  package static func table(_ rows: [NodeRow]) -> Table {
    let hasPlacements = rows.contains { $0.place != nil }
    return table(rows, Field.allCases.filter { $0 != .place || hasPlacements })
  }
}

extension [NodeInformation] {
  /// The rows of `ps`.
  /// - Parameters:
  ///   - now: Nanoseconds since 1970.
  ///   - usage: The resource usage of each process, by its id.
  package func rows(now: Int64, usage: [Int32: ProcessUsage] = [:]) -> [NodeRow] {
    var processes: Set<String> = []
    return map { node in
      // Composites that share a process share an inbox.
      let isFirst = node.kind != .composite || processes.insert(node.inboxName).inserted
      return NodeRow(
        node: node.name, status: node.phase, state: node.shownState ?? "",
        reason: node.shownState == nil ? node.stateText : "",
        process: !isFirst
          ? nil
          : NodeRow.Process(
            pid: node.pid, uptime: node.uptime(now: now), events: node.status?.events ?? 0,
            restarts: node.restarts,
            usage: node.hostName == nil ? node.pid.flatMap { usage[$0] } : nil),
        durability: [.machine, .composite].contains(node.kind) ? node.durability : nil,
        version: node.status.flatMap { $0.state == nil ? nil : $0.version },
        place: node.placeText)
    }
  }
}

extension NodeInformation {
  /// The state for a person, or the reason why there is none; empty if neither is known.
  package var stateText: String {
    shownState ?? reason ?? ""
  }

  /// `front`, or `front (fh1)` if the engine chose the host `fh1`; `nil` if neither is known.
  fileprivate var placeText: String? {
    guard let place else { return hostName.map { "(\($0))" } }
    return hostName.map { "\(place) (\($0))" } ?? place
  }

  fileprivate var shownState: String? {
    status?.state.map { $0.stateText(fields: stateFields) + doubtText }
  }

  /// `  IN DOUBT in 3.17`; empty if the node is not in doubt.
  private var doubtText: String {
    let transactions = Set(doubts.map(\.transaction)).sorted().map(\.description)
    return transactions.isEmpty ? "" : "  IN DOUBT in \(transactions.joined(separator: ", "))"
  }

  /// Returns how long the node's process has run.
  /// - Parameter now: Nanoseconds since 1970.
  package func uptime(now: Int64) -> Duration? {
    startedAt.map { .nanoseconds(max(0, now - $0)) }
  }
}

extension NodeInformation {
  /// The orchestrator's data about the node: the JSON form of `status`, and most of the JSON form
  /// of `ps`.
  /// - Parameter now: Nanoseconds since 1970.
  package func record(now: Int64) -> JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(name), "kind": .string(kind.rawValue),
      "machine": .optional(hosts), "program": .string(program),
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
      "refused": .count(refused), "deadLetters": .count(deadLetters),
      "deadLettersLost": .count(deadLettersLost ?? 0),
      "recentDeadLetters": (try? JSONValue(encoding: recentDeadLetters)) ?? [],
      "unconnected": .count(unconnected), "gaps": .count(gaps),
      "invalidFrames": .count(invalidFrames),
      "effects": .integer(Int64(effects)), "blocked": .texts(blocked),
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
