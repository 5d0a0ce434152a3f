import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// The screen's data about a topology.
package struct ScreenData: Sendable {
  /// The outcome of a request.
  package enum QueryResult<Value: Sendable>: Sendable {
    case found(Value)
    case failed(String)
  }

  /// The maximum number of log lines.
  package static let logLimit = 2_000
  /// The shortest time over which a pipe's rate is computed. Unit: nanoseconds.
  private static let rateInterval: Int64 = 900_000_000

  /// `nil` before the orchestrator has answered.
  package private(set) var directory: TopologyDirectory?
  /// The reason why the orchestrator does not answer; `nil` if it does.
  package var noAnswerReason: String?
  /// Unit: nanoseconds since 1970.
  package var now: Int64 = 0
  /// When the topology was started. Unit: nanoseconds since 1970.
  package var startedAt: Int64?
  private var latestStates = LatestStates()
  package private(set) var trends: [String: NodeTrend] = [:]
  package private(set) var histories: [String: NodeHistory] = [:]
  private var snapshots: [String: PipeSnapshot] = [:]
  package private(set) var rates: [String: PipeRate] = [:]
  package private(set) var logs: [ScreenRow] = []
  /// The number of log lines ever received.
  private var logCount = 0
  /// The enabled events of each node or composite.
  package var enabled: [String: QueryResult<EnabledEvents>] = [:]
  /// The state chart of each node.
  package var charts: [String: QueryResult<StateChart>] = [:]

  /// The nodes to show, with their pipes and logs; all nodes if the list is empty.
  private let names: [String]

  package init(of names: [String] = []) { self.names = names }

  // MARK: Input

  package mutating func take(_ directory: TopologyDirectory) {
    self.directory = directory
    noAnswerReason = nil
    for node in directory.nodes { take(node) }
    for snapshot in directory.pipeSnapshots {
      let name = snapshot.pipe.name
      guard let before = snapshots[name] else {
        snapshots[name] = snapshot
        continue
      }
      guard Self.time(of: snapshot) >= Self.time(of: before) + Self.rateInterval else { continue }
      snapshots[name] = snapshot
      rates[name] = PipeRate(from: before, to: snapshot)
    }
  }

  package mutating func take(_ change: StateChange) {
    latestStates.take(change)
    histories[change.node, default: NodeHistory()].take(change)
    if let status = change.summary?.status {
      updateTrend(of: change.node, status, change.incarnation)
    }
  }

  package mutating func take(_ step: NodeStep) {
    histories[step.node, default: NodeHistory()].take(step)
  }

  package mutating func take(_ entries: [LogEntry]) {
    let rows = entries.filter { isShown($0.node) }.map { entry in
      logCount += 1
      return ScreenRow(log: entry, name: String(logCount))
    }
    logs = Array((logs + rows).suffix(Self.logLimit))
  }

  private mutating func take(_ node: NodeInformation) {
    if let status = node.status { updateTrend(of: node.name, status, node.incarnation) }
  }

  private mutating func updateTrend(of node: String, _ status: NodeStatus, _ incarnation: UInt64) {
    guard let time = status.time else { return }
    trends[node, default: NodeTrend()].take(
      NodeTrend.Sample(events: status.events, time: time, incarnation: incarnation))
  }

  /// The time of the older of the two ends' reports.
  private static func time(of snapshot: PipeSnapshot) -> Int64 {
    min(snapshot.sender?.status?.time ?? 0, snapshot.receiver?.status?.time ?? 0)
  }

  // MARK: Lookup

  /// The nodes and composites, with their latest reports.
  package var nodes: [NodeInformation] {
    latestStates.merged(into: (try? directory?.nodes(named: names)) ?? [])
  }

  package func node(_ name: String) -> NodeInformation? {
    directory?[node: name].flatMap { latestStates.merged(into: [$0]).first }
  }

  /// The latest state that a node has reported.
  package func change(of node: NodeInformation) -> StateChange? { latestStates.change(of: node) }

  package var pipes: [PipeSnapshot] {
    directory?.pipeSnapshots.filter { isShown($0.pipe.from) || isShown($0.pipe.to) } ?? []
  }

  private func isShown(_ node: String) -> Bool { names.isEmpty || names.contains(node) }

  package func pipe(_ name: String) -> PipeSnapshot? { pipes.first { $0.pipe.name == name } }

  /// Formats the time since `time` for a person.
  package func age(of time: Int64) -> String { Duration.nanoseconds(max(0, now - time)).shortText }

  /// Formats a time as the time of day.
  package static func timeOfDay(_ time: Timestamp) -> String {
    String(time.localText.split(separator: " ").last ?? "")
  }
}

/// The latest states as the nodes themselves report them. The orchestrator polls the nodes only
/// from time to time, so its data may be older.
package struct LatestStates: Sendable {
  private var changes: [String: StateChange] = [:]

  package init() {}

  package mutating func take(_ change: StateChange) { changes[change.node] = change }

  /// The latest state that a node has reported; `nil` if there is none, or another process of the
  /// node reported it.
  package func change(of node: NodeInformation) -> StateChange? {
    changes[node.name].flatMap { $0.incarnation == node.incarnation ? $0 : nil }
  }

  /// Returns the nodes with their latest states, as far as the reporting processes are the running
  /// ones.
  package func merged(into nodes: [NodeInformation]) -> [NodeInformation] {
    nodes.map { node in
      guard node.isRunning, let change = change(of: node),
        change.version >= node.status?.version ?? 0
      else { return node }
      var node = node
      node.status = change.status(after: node.status)
      node.doubts = change.doubts
      return node
    }
  }
}

extension StateChange {
  /// The status with this state, and with the newer of the two sets of counters.
  fileprivate func status(after previous: NodeStatus?) -> NodeStatus {
    var status = previous ?? NodeStatus()
    if var reportedStatus = summary?.status, reportedStatus.events >= status.events {
      // A summary contains only the number of dead letters, and no composites.
      (reportedStatus.recentDeadLetters, reportedStatus.composites) = (
        status.recentDeadLetters, status.composites
      )
      status = reportedStatus
    }
    (status.state, status.version) = (state, version)
    status.doubt = doubts.first { $0.participant == node }
    return status
  }
}
