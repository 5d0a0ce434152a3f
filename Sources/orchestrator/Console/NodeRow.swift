import PipeRuntime

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
