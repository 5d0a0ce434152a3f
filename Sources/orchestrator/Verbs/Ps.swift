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

/// What the tables of `ps` show of one node.
package struct NodeRow: Hashable, Sendable {
  /// Figures of a node's process.
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
  /// The lifecycle's word: `running`, `backing off`.
  package var status: String
  /// The machine's state as text; empty where it is not known.
  package var state: String
  /// Why it is not known; empty where it is, or where there is nothing to say.
  package var reason: String
  /// `nil` where another row shows them: that of the first composite of several in one process.
  package var process: Process?
  /// `nil` where there is nothing to survive.
  package var durability: Durability?
  /// `nil` where there is no state.
  package var version: UInt64?
  /// The place that a deployment has for it; `nil` where it runs by none, or where the orchestrator does.
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

  /// The columns of a reason that a table shows; `status` has all of it.
  private static let reasonWidth = 60

  private var stateCell: String {
    state.isEmpty ? reason.isEmpty ? "-" : reason.cut(to: Self.reasonWidth) : state
  }

  // MARK: Tables

  private enum Field: CaseIterable {
    case node, place, status, pid, uptime, events, restarts, cpu, memory, durability, version, state

    /// In narrow terminals the columns of the lowest ranks are left out first.
    var column: Table.Column {
      switch self {
      case .node: .init("NODE")
      case .place: .init("PLACE", rank: 5)
      case .status: .init("STATUS")
      case .pid: .init("PID", .right, rank: 3)
      case .uptime: .init("UPTIME", .right, rank: 6)
      case .events: .init("EVENTS", .right, rank: 8)
      case .restarts: .init("RESTARTS", .right, rank: 4)
      case .cpu: .init("CPU", .right, rank: 1)
      case .memory: .init("MEMORY", .right, rank: 2)
      case .durability: .init("DURABILITY", rank: 5)
      case .version: .init("VERSION", .right, rank: 7)
      case .state: .init("STATE", least: 30)
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

  /// The table of `ps`: everything, and places where there are any.
  package static func table(_ rows: [NodeRow]) -> Table {
    let hasPlaces = rows.contains { $0.place != nil }
    return table(rows, Field.allCases.filter { $0 != .place || hasPlaces })
  }
}

extension [NodeInformation] {
  /// The rows of `ps`.
  /// - Parameters:
  ///   - now: Unit: nanoseconds since 1970.
  ///   - usage: What each process has used, by its id.
  package func rows(now: Int64, usage: [Int32: ProcessUsage] = [:]) -> [NodeRow] {
    var processes: Set<String> = []
    return map { node in
      // Composites that share a process are reached at one inbox.
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
  /// The state for a person, or why there is none; empty where neither is known.
  package var stateText: String {
    shownState ?? reason ?? ""
  }

  /// `front`, or `front (fh1)` where that is a host of an engine's; `nil` where neither is known.
  fileprivate var placeText: String? {
    guard let place else { return hostName.map { "(\($0))" } }
    return hostName.map { "\(place) (\($0))" } ?? place
  }

  fileprivate var shownState: String? {
    status?.state.map { $0.stateText(fields: stateFields) + doubtText }
  }

  /// `, IN DOUBT in 3.17`, where it is.
  private var doubtText: String {
    let transactions = Set(doubts.map(\.transaction)).sorted().map(\.description)
    return transactions.isEmpty ? "" : "  IN DOUBT in \(transactions.joined(separator: ", "))"
  }

  /// How long its process has lived.
  /// - Parameter now: Unit: nanoseconds since 1970.
  package func uptime(now: Int64) -> Duration? {
    startedAt.map { .nanoseconds(max(0, now - $0)) }
  }
}

extension NodeInformation {
  /// All that its orchestrator knows of it: the JSON form of `status`, and most of that of `ps`.
  /// - Parameter now: Unit: nanoseconds since 1970.
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
  /// Its counters, without the state that they are of.
  var counters: JSONValue {
    .object(record.filter { !["state", "version", "recentLetters"].contains($0.key) })
  }

  fileprivate var record: [String: JSONValue] {
    [
      "state": state ?? .null, "version": .count(version), "events": .count(events),
      "refused": .count(refused), "letters": .count(letters),
      "lettersLost": .count(lettersLost ?? 0),
      "recentLetters": (try? JSONValue(encoding: recentLetters)) ?? [],
      "unconnected": .count(unconnected), "gaps": .count(gaps), "garbage": .count(garbage),
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
    return .object(members)
  }
}
