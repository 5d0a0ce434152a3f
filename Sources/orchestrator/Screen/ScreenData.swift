import PipeDiagrams
import PipeClient
import PipeRuntime
import PipeSupervision

/// All that the screen knows of a topology.
package struct ScreenData: Sendable {
  /// What has become of a question.
  package enum Finding<Value: Sendable>: Sendable {
    case found(Value)
    case failed(String)
  }

  /// The lines of logs that are kept.
  package static let logLimit = 2_000
  /// The least time that the rate of a pipe is of. Unit: nanoseconds.
  private static let rateInterval: Int64 = 900_000_000

  /// `nil` before the orchestrator has answered.
  package private(set) var directory: TopologyDirectory?
  /// What keeps the orchestrator from answering; `nil` where it does.
  package var silence: String?
  /// Unit: nanoseconds since 1970.
  package var now: Int64 = 0
  /// When the topology was started. Unit: nanoseconds since 1970.
  package var startedAt: Int64?
  private var latest = LatestStates()
  package private(set) var trends: [String: NodeTrend] = [:]
  package private(set) var histories: [String: NodeHistory] = [:]
  private var readings: [String: PipeReading] = [:]
  package private(set) var rates: [String: PipeRate] = [:]
  package private(set) var logs: [ScreenRow] = []
  /// All lines that there were.
  private var logCount = 0
  /// By node or composite, which events it takes.
  package var enabled: [String: Finding<EnabledEvents>] = [:]
  /// By node, what its machine does in each state.
  package var charts: [String: Finding<StateChart>] = [:]

  /// The nodes that are shown, with their pipes and logs; all where there are none.
  private let names: [String]

  package init(of names: [String] = []) { self.names = names }

  // MARK: What comes in

  package mutating func take(_ directory: TopologyDirectory) {
    self.directory = directory
    silence = nil
    for node in directory.nodes { take(node) }
    for reading in directory.pipeReadings {
      let name = reading.pipe.name
      guard let before = readings[name] else {
        readings[name] = reading
        continue
      }
      guard Self.time(of: reading) >= Self.time(of: before) + Self.rateInterval else { continue }
      readings[name] = reading
      rates[name] = PipeRate(from: before, to: reading)
    }
  }

  package mutating func take(_ change: StateChange) {
    latest.take(change)
    histories[change.node, default: NodeHistory()].take(change)
    if let status = change.summary?.status {
      takeTrend(of: change.node, status, change.incarnation)
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
    if let status = node.status { takeTrend(of: node.name, status, node.incarnation) }
  }

  private mutating func takeTrend(of node: String, _ status: NodeStatus, _ incarnation: UInt64) {
    guard let time = status.time else { return }
    trends[node, default: NodeTrend()].take(
      NodeTrend.Reading(events: status.events, time: time, incarnation: incarnation))
  }

  /// When both ends had told of it.
  private static func time(of reading: PipeReading) -> Int64 {
    min(reading.sender?.status?.time ?? 0, reading.receiver?.status?.time ?? 0)
  }

  // MARK: What is known

  /// The nodes and composites, with what they have told last.
  package var nodes: [NodeInformation] {
    latest.merged(into: (try? directory?.nodes(named: names)) ?? [])
  }

  package func node(_ name: String) -> NodeInformation? {
    directory?[node: name].flatMap { latest.merged(into: [$0]).first }
  }

  /// The state that a node has told last.
  package func change(of node: NodeInformation) -> StateChange? { latest.change(of: node) }

  package var pipes: [PipeReading] {
    directory?.pipeReadings.filter { isShown($0.pipe.from) || isShown($0.pipe.to) } ?? []
  }

  private func isShown(_ node: String) -> Bool { names.isEmpty || names.contains(node) }

  package func pipe(_ name: String) -> PipeReading? { pipes.first { $0.pipe.name == name } }

  /// How long ago a time was, for a person.
  package func age(of time: Int64) -> String { Duration.nanoseconds(max(0, now - time)).shortText }

  /// The time of day.
  package static func clock(_ time: Timestamp) -> String {
    String(time.localText.split(separator: " ").last ?? "")
  }
}

/// What each node tells of itself, with its latest state: what its orchestrator knows of it, which asks it now
/// and then, may be older.
package struct LatestStates: Sendable {
  private var changes: [String: StateChange] = [:]

  package init() {}

  package mutating func take(_ change: StateChange) { changes[change.node] = change }

  /// What a node has told last; `nil` where it has told nothing, or another process of it has.
  package func change(of node: NodeInformation) -> StateChange? {
    changes[node.name].flatMap { $0.incarnation == node.incarnation ? $0 : nil }
  }

  /// The nodes with what they have told, where that is of the processes that run.
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
  /// The state with its counters, or with those that are known where these are newer.
  fileprivate func status(after known: NodeStatus?) -> NodeStatus {
    var status = known ?? NodeStatus()
    if var told = summary?.status, told.events >= status.events {
      // A summary has only the number of the letters, and no composites.
      (told.recentLetters, told.composites) = (status.recentLetters, status.composites)
      status = told
    }
    (status.state, status.version) = (state, version)
    status.doubt = doubts.first { $0.participant == node }
    return status
  }
}
