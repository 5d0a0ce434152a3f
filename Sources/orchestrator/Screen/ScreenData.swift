import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// The data about a topology that the screen shows.
package struct ScreenData: Sendable {
  /// The result of a request.
  package enum QueryResult<Value: Sendable>: Sendable {
    case found(Value)
    case failed(String)
  }

  /// The maximum number of log lines to keep.
  package static let logLimit = 2_000
  /// The minimum time over which the rate of a pipe is computed. Unit: nanoseconds.
  private static let rateInterval: Int64 = 900_000_000

  /// The last received directory; `nil` until the orchestrator has answered.
  package private(set) var directory: TopologyDirectory?
  /// The reason why the orchestrator does not answer; `nil` if the orchestrator answers.
  package var noAnswerReason: String?
  /// The current time. Unit: nanoseconds since 1970.
  package var now: Int64 = 0
  /// The time at which the topology was started. Unit: nanoseconds since 1970.
  package var startedAt: Int64?
  private var latestStates = LatestStates()
  package private(set) var trendsByNode: [String: NodeTrend] = [:]
  package private(set) var historiesByNode: [String: NodeHistory] = [:]
  private var snapshotsByPipe: [String: PipeSnapshot] = [:]
  package private(set) var ratesByPipe: [String: PipeRate] = [:]
  package private(set) var logs: [ScreenRow] = []
  /// The times of the log lines.
  private var logTimes: [Timestamp] = []
  /// The number of log lines that were received, including lines that were dropped.
  private var logCount = 0
  /// For each node and composite, the last result of a request for its enabled events.
  package var enabledEventsByNode: [String: QueryResult<EnabledEvents>] = [:]
  /// For each node, the result of the request for its state chart.
  package var chartsByNode: [String: QueryResult<StateChart>] = [:]
  /// For each node with dead letters, the last result of a request for them.
  package var deadLetters: [String: QueryResult<[DeadLetter]>] = [:]
  /// The result of the request for the wiring of the topology; `nil` before the answer.
  package var wiring: QueryResult<Wiring>?

  /// The nodes to show, together with their pipes and logs. If the list is empty, all nodes are
  /// shown.
  private let shownNames: [String]

  package init(of names: [String] = []) { self.shownNames = names }

  // MARK: Received data

  package mutating func take(_ directory: TopologyDirectory) {
    self.directory = directory
    noAnswerReason = nil
    for node in directory.nodes { take(node) }
    for snapshot in directory.pipeSnapshots {
      let name = snapshot.pipe.name
      guard let before = snapshotsByPipe[name] else {
        snapshotsByPipe[name] = snapshot
        continue
      }
      guard Self.time(of: snapshot) >= Self.time(of: before) + Self.rateInterval else { continue }
      snapshotsByPipe[name] = snapshot
      ratesByPipe[name] = PipeRate(from: before, to: snapshot)
    }
  }

  package mutating func take(_ change: StateChange) {
    latestStates.take(change)
    historiesByNode[change.node, default: NodeHistory()].take(change)
    if let status = change.summary?.status {
      updateTrend(of: change.node, status, change.incarnation)
    }
  }

  package mutating func take(_ step: NodeStep) {
    historiesByNode[step.node, default: NodeHistory()].take(step)
  }

  /// Adds log lines in the order of their times: the line of one node may be read after a later
  /// line of another node.
  package mutating func take(_ entries: [LogEntry]) {
    for entry in entries where isShown(entry.node) {
      logCount += 1
      var index = logTimes.endIndex
      while index > 0, logTimes[index - 1] > entry.time { index -= 1 }
      logTimes.insert(entry.time, at: index)
      logs.insert(ScreenRow(log: entry, name: String(logCount)), at: index)
    }
    let surplus = logs.count - Self.logLimit
    guard surplus > 0 else { return }
    logs.removeFirst(surplus)
    logTimes.removeFirst(surplus)
  }

  private mutating func take(_ node: NodeInformation) {
    if let status = node.status { updateTrend(of: node.name, status, node.incarnation) }
  }

  private mutating func updateTrend(of node: String, _ status: NodeStatus, _ incarnation: UInt64) {
    guard let time = status.time else { return }
    trendsByNode[node, default: NodeTrend()].take(
      NodeTrend.Sample(events: status.events, time: time, incarnation: incarnation))
  }

  /// Returns the time at which the pipe's ends last reported; if the times differ, the earlier
  /// time.
  private static func time(of snapshot: PipeSnapshot) -> Int64 {
    min(snapshot.sender?.status?.time ?? 0, snapshot.receiver?.status?.time ?? 0)
  }

  // MARK: Lookup of nodes and pipes

  /// The nodes and composites, with the latest data that they have reported.
  package var nodes: [NodeInformation] {
    latestStates.merged(into: (try? directory?.nodes(named: shownNames)) ?? [])
  }

  package func node(_ name: String) -> NodeInformation? {
    directory?[node: name].flatMap { latestStates.merged(into: [$0]).first }
  }

  /// Returns nodes with the latest data that they have reported.
  func merged(_ nodes: [NodeInformation]) -> [NodeInformation] { latestStates.merged(into: nodes) }

  /// The root causes of all problems of the topology; `nil` until the orchestrator has answered.
  package var health: TopologyHealth? {
    directory.map { directory in
      var directory = directory
      directory.nodes = merged(directory.nodes)
      return TopologyHealth(directory, at: now)
    }
  }

  /// The latest state that a node has reported.
  package func change(of node: NodeInformation) -> StateChange? { latestStates.change(of: node) }

  package var pipes: [PipeSnapshot] {
    directory?.pipeSnapshots.filter { isShown($0.pipe.from) || isShown($0.pipe.to) } ?? []
  }

  private func isShown(_ node: String) -> Bool { shownNames.isEmpty || shownNames.contains(node) }

  package func pipe(_ name: String) -> PipeSnapshot? { pipes.first { $0.pipe.name == name } }

  /// Formats the time that has passed since `time`, for users.
  package func age(of time: Int64) -> String { Duration.nanoseconds(max(0, now - time)).shortText }

  /// Formats a time as the time of day.
  package static func timeOfDay(_ time: Timestamp) -> String {
    String(time.localText.split(separator: " ").last ?? "")
  }
}
