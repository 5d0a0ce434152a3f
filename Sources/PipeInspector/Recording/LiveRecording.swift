import PipeClient
import PipeMachines
import PipeSupport
import PipeWire

/// Records the steps, states and logs of a topology. The topology may start and stop during the
/// recording.
package final class LiveRecording: PageDataSource {
  /// The topology's name.
  package let name: String
  let target: TopologyTarget
  package let recorder: InspectionRecorder
  /// The connection to the topology; `nil` while the topology does not run.
  let client = Locked<TopologyClient?>(nil)
  private let tasks = Locked<[Task<Void, Never>]>([])
  private let stateCharts: StateChartReader
  private let orchestratorTracker = Locked(OrchestratorTracker())
  private let lifecycleTracker = Locked(LifecycleTracker())
  /// The last directory of the topology, and the topology's composites; `nil` before the first
  /// directory.
  private let lastTopology = Locked<(TopologyDirectory, [(name: String, nodes: [String])])?>(nil)
  private let hasAddedPast = Locked(false)

  /// The interval between two reads of the nodes' status.
  private static let pause: Duration = .milliseconds(500)
  /// The interval between two reads of the logs.
  private static let logPause: Duration = .milliseconds(250)

  /// - Parameter target: The topology. For a topology on this host, the target must have a name.
  package init(_ target: TopologyTarget, name: String, capacity: Int = 64 << 20) {
    self.target = target
    self.name = name
    recorder = InspectionRecorder(capacity: capacity)
    stateCharts = StateChartReader(topology: name)
  }

  deinit { tasks.withLock { for task in $0 { task.cancel() } } }

  /// Starts the recording.
  package func start() {
    let task = Task { [weak self] in
      while !Task.isCancelled {
        guard let target = self?.target else { return }
        do {
          let client = try TopologyClient.attach(to: target)
          defer { client.close() }
          self?.client.withLock { $0 = client }
          try await self?.record(client)
        } catch {
          self?.recordLoss(because: "\(error)")
        }
        try? await Task.sleep(for: Self.pause)
      }
    }
    tasks.withLock { $0 = [task, recordLogs()] }
  }

  /// Records the logs.
  ///
  /// The logs of a topology on this host are files. They are also read after the end of the
  /// topology, since they show why the topology has ended.
  private func recordLogs() -> Task<Void, Never> {
    Task { [weak self, name, target] in
      guard target.remote == nil else { return await Self.followLogs { [weak self] in self } }
      guard let directory = try? RuntimeDirectories(topology: name).logs else { return }
      var logs = RecordedLogs(TopologyLogs(directory: directory, follows: true))
      while !Task.isCancelled, let recorder = self?.recorder {
        if let lines = try? await logs.next() { recorder.appendLog(lines) }
        try? await Task.sleep(for: Self.logPause)
      }
    }
  }

  /// How long the recording of a node pauses if the node takes more steps than its feed can
  /// deliver. Without pauses, the recording would slow the node down.
  private static let recordingPause: Duration = .seconds(2)

  private static func pauseRecording(of feed: String, in subscription: StepSubscription) {
    subscription.setActive(feed, false)
    Task {
      try? await Task.sleep(for: recordingPause)
      subscription.setActive(feed, true)
    }
  }

  /// Records that the topology has ended. The page keeps its nodes and their last states.
  private func recordLoss(because reason: String) {
    client.withLock { $0 = nil }
    guard let last = lastTopology.withLock({ $0 }) else {
      return recorder.set(
        "topology",
        [
          "is": "topology", "topology": .string(name), "running": false, "phase": "down",
          "reason": .string(reason), "nodes": [], "pipes": [],
        ])
    }
    var directory = last.0
    // Nodes of a killed orchestrator continue to run until another orchestrator adopts them.
    let orphans = target.remote == nil ? orphanedTopology : nil
    let orphanedNodes = Set(orphans?.nodes.map(\.node) ?? [])
    (directory.phase, directory.isRunning) = (orphans == nil ? "down" : "orphaned", false)
    for index in directory.nodes.indices
    where directory.nodes[index].isRunning && !orphanedNodes.contains(directory.nodes[index].name) {
      directory.nodes[index].phase = "down"
      (directory.nodes[index].isRunning, directory.nodes[index].pid) = (false, nil)
    }
    recordLifecycles(in: directory)
    guard case .object(var record) = directory.inspectionRecord(last.1) else { return }
    record["reason"] = .string(
      orphans.map { "\($0.status); '\($0.upCommand)' adopts the nodes" } ?? reason)
    recorder.set("topology", .object(record))
  }

  private var orphanedTopology: OrphanedTopology? {
    (try? RuntimeDirectories(topology: name)).flatMap(OrphanedTopology.find)
  }

  private func recordLifecycles(in directory: TopologyDirectory) {
    let changes = lifecycleTracker.withLock {
      $0.changes(in: directory, now: WallClock.nanoseconds)
    }
    for change in changes { recorder.append(change) }
  }

  /// Adds the steps in the nodes' journals to the recording, before the first live steps. Only the
  /// first call has an effect.
  private func addPast(of nodes: [NodeInformation]) {
    let isFirst = hasAddedPast.withLock { hasAddedPast in
      defer { hasAddedPast = true }
      return !hasAddedPast
    }
    guard isFirst else { return }
    // This host cannot read the journals on another host.
    guard target.remote == nil else { return }
    for step in RecordedPast.steps(of: nodes) { recorder.append(step) }
  }

  /// Records the topology until the topology ends or its nodes change.
  private func record(_ client: TopologyClient) async throws {
    let directory = try await client.directory(fresh: false)
    let nodes = directory.nodes.filter { $0.kind != .monitor }
    let composites = try await client.conflictClasses().flatMap(\.composites).map {
      ($0.name, $0.nodes)
    }
    let names = Dictionary(
      nodes.map { (FeedTopic.topicNumber(of: $0.name), $0.name) },
      uniquingKeysWith: { one, _ in one })
    let recorder = recorder
    recorder.keep(only: ["topology"])
    addPast(of: nodes)
    if let takeover = orchestratorTracker.withLock({
      $0.takeover(in: directory, now: WallClock.nanoseconds)
    }) {
      recorder.append(takeover)
    }
    let (overloadedTopics, overloadedContinuation) = AsyncStream.makeStream(
      of: UInt32.self, bufferingPolicy: .bufferingNewest(nodes.count))
    let following = try await client.followSteps(of: nodes, ending: {}) { frame in
      if frame.reportsSkipped { overloadedContinuation.yield(frame.topic) }
      guard !recorder.append(frame.json), let node = names[frame.topic] else { return }
      recorder.append(frame.placeholder(of: node))
    }
    defer { following.stop() }
    let feeds = Dictionary(
      nodes.map { (FeedTopic.topicNumber(of: $0.name), $0.feedName) },
      uniquingKeysWith: { one, _ in one })
    let pausing = Task {
      var pausedUntil: [String: ContinuousClock.Instant] = [:]
      for await topic in overloadedTopics {
        // Ignores frames that were already on their way when the pause began.
        guard let feed = feeds[topic], pausedUntil[feed].map({ $0 <= .now }) ?? true else {
          continue
        }
        pausedUntil[feed] = .now + Self.recordingPause + .milliseconds(100)
        Self.pauseRecording(of: feed, in: following)
      }
    }
    defer { pausing.cancel() }
    let states = try await client.states(
      of: nodes.map(\.name), .latest, reportingInDoubt: true)
    let latestStates = Locked(LatestStates())
    let stateTask = Task {
      for await change in states {
        latestStates.withLock { $0.take(change) }
        recorder.set("node \(change.node)", change.inspectionRecord)
      }
    }
    defer { stateTask.cancel() }
    var current = directory
    while current.nodes.map(\.feedName) == directory.nodes.map(\.feedName), !Task.isCancelled {
      recordLifecycles(in: current)
      lastTopology.withLock { [current] in $0 = (current, composites) }
      recorder.set("topology", current.inspectionRecord(composites))
      current.nodes = latestStates.withLock { $0.merged(into: current.nodes) }
      recorder.set(
        "health", TopologyHealth(current, at: WallClock.nanoseconds).inspectionRecord)
      try await Task.sleep(for: Self.pause)
      current = try await client.directory(fresh: false)
    }
  }
}

extension FeedFrame {
  /// Whether the frame reports only a number of skipped steps. Such a frame is short.
  fileprivate var reportsSkipped: Bool {
    json.count < 512 && String(decoding: json, as: UTF8.self).contains("\"skipped\":")
      && (try? JSONValue(parsing: json))?["skipped"] != nil
  }

  /// Returns a record that stands for a step or a refused event that is too large to be recorded.
  fileprivate func placeholder(of node: String) -> JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(node), "incarnation": .count(incarnation), "version": .count(version),
      "time": .integer(WallClock.nanoseconds), "large": .integer(Int64(json.count)),
    ]
    if isRefusal { record["refused"] = "too large to be shown" }
    return .object(record)
  }
}

extension LiveRecording {
  /// The maximum time to wait for a node to report the outcome of an event.
  private static let outcomeTimeout: Duration = .seconds(5)
  /// The maximum time to wait until a node has started or stopped.
  private static let controlTimeout: Duration = .seconds(10)

  package func answer(_ request: InspectionRequest) async throws -> JSONValue {
    if let client = client.withLock({ $0 }) {
      return try await answerWrappingErrors(request, client)
    }
    // If attaching failed before, the topology may have started since.
    guard let client = try? TopologyClient.attach(to: target) else {
      throw InspectionRequestError("topology '\(name)' is not running")
    }
    defer { client.close() }
    return try await answerWrappingErrors(request, client)
  }

  private func answerWrappingErrors(_ request: InspectionRequest, _ client: TopologyClient)
    async throws
    -> JSONValue
  {
    do {
      return try await answer(request, client)
    } catch {
      throw InspectionRequestError("\(error)")
    }
  }

  private func answer(_ request: InspectionRequest, _ client: TopologyClient) async throws
    -> JSONValue
  {
    switch request {
    case .machine(let node): return try JSONValue(encoding: await client.describe(node))
    case .enabled(let node): return try await client.enabledEvents(of: node).inspectionRecord
    case .state(let node): return try await state(of: node, client)
    case .deadLetters(let node):
      return .array(
        try await client.deadLetters(of: node).suffix(100).map { try JSONValue(encoding: $0) })
    case .send(let node, let event):
      switch try await client.deliver(event, to: node, timeout: Self.outcomeTimeout).outcome {
      case .node(let outcome): return outcome.inspectionRecord
      case .composite(let reply): return TransactionReply.atomic(reply).json
      }
    case .chart(let node):
      guard target.remote == nil else { throw StateChartReader.remoteError }
      let incarnation = try await client.directory(fresh: false)[node: node]?.incarnation ?? 0
      return try await stateCharts.chart(of: node, incarnation: incarnation)
    case .control(let node, .start):
      try await client.start([node], within: Self.controlTimeout)
      return ["outcome": "started"]
    case .control(let node, .stop):
      try await client.stop([node], within: Self.controlTimeout)
      return ["outcome": "stopped"]
    case .control(let node, .restart):
      try await client.restart([node], within: Self.controlTimeout)
      return ["outcome": "restarted"]
    case .control(let node, .kill):
      try await client.kill(node)
      return ["outcome": "killed"]
    case .deadLetter(let node, let id, drops: true):
      try await client.drop(deadLetter: id, of: node, timeout: Self.outcomeTimeout)
      return ["outcome": "dropped"]
    case .deadLetter(let node, let id, drops: false):
      return try await client.resend(deadLetter: id, of: node, timeout: Self.outcomeTimeout)
        .inspectionRecord
    }
  }
}

extension LiveRecording {
  /// The maximum time to wait for a node's state.
  private static let stateTimeout: Duration = .seconds(2)

  /// Returns the complete state of a node. The states in records may be shortened.
  private func state(of node: String, _ client: TopologyClient) async throws -> JSONValue {
    let states = try await client.states(of: [node], .latest)
    let found = await withTaskGroup(of: StateChange?.self) { group in
      group.addTask { await states.first { _ in true } }
      group.addTask {
        try? await Task.sleep(for: Self.stateTimeout)
        return nil
      }
      defer { group.cancelAll() }
      return await group.next() ?? nil
    }
    guard let found else {
      throw InspectionRequestError(
        "timed out: node '\(node)' did not report its state; check that the node runs")
    }
    return ["version": .count(found.version), "state": found.state]
  }
}

extension RequestOutcome {
  fileprivate var inspectionRecord: JSONValue {
    switch self {
    case .accepted(let version, let state):
      ["outcome": "accepted", "version": .count(version), "state": state]
    case .refused(let refusal, let state):
      [
        "outcome": "refused", "reason": .string(refusal.code), "error": .optional(refusal.error),
        "state": state,
      ]
    case .done: ["outcome": "done"]
    }
  }
}

extension EnabledEvents {
  /// A record of the events: their fields, and whether the node accepts them now.
  fileprivate var inspectionRecord: JSONValue {
    [
      "name": .string(name), "kind": .string(kind.rawValue),
      "version": version.map { .count($0) } ?? .null, "timer": timer?.record ?? .null,
      "events": .array(
        events.map { event in
          [
            "event": .string(event.event.name), "composite": .optional(event.composite),
            "verdict": .string(event.verdict.rawValue),
            "participants": .texts(event.participants),
            "fields": .array(
              event.event.fields.map { ["name": .string($0.name), "type": .string($0.type)] }),
            "because": .array(
              event.blockingAnswers.map { answer in
                [
                  "participant": .string(answer.participant), "state": answer.state ?? .null,
                  "reason": .string(answer.blocker?.description ?? ""),
                ]
              }),
          ]
        }),
    ]
  }
}

extension LiveRecording {
  /// The interval between two requests to the orchestrator.
  private static let remotePause: Duration = .milliseconds(500)

  /// Records the logs of a topology on another host, as long as the topology runs. The orchestrator
  /// on that host reads the log files.
  static func followLogs(of recording: @escaping @Sendable () -> LiveRecording?) async {
    var following: (logs: RecordedLogs, client: ObjectIdentifier)?
    while !Task.isCancelled {
      guard let recording = recording() else { return }
      if let client = recording.client.withLock({ $0 }) {
        var (logs, former) =
          following ?? (RecordedLogs(TopologyLogs(client)), ObjectIdentifier(client))
        // Continues at the same position after a new connection, so that no line is recorded twice.
        if former != ObjectIdentifier(client) { logs.continueReading(on: client) }
        if let lines = try? await logs.next() { recording.recorder.appendLog(lines) }
        following = (logs, ObjectIdentifier(client))
      }
      try? await Task.sleep(for: remotePause)
    }
  }
}

/// Detects when nodes start, end and restart.
struct LifecycleTracker {
  private struct LifecycleStatus: Equatable {
    var incarnation: UInt64
    var phase: String
    var isRunning: Bool
    var restarts: UInt64
    var reason: String?

    init(_ node: NodeInformation) {
      incarnation = node.incarnation
      phase = node.phase
      isRunning = node.isRunning
      restarts = node.restarts
      reason = node.reason
    }

    var record: [String: JSONValue] {
      [
        "incarnation": .count(incarnation), "phase": .string(phase), "running": .bool(isRunning),
        "restarts": .count(restarts), "reason": .optional(reason),
      ]
    }
  }

  private var lastStatuses: [String: LifecycleStatus] = [:]

  /// Returns the changes since the last call. Each change contains the node's previous status, so
  /// that the page can also show the status before the change. A node that is new in the directory
  /// counts as unchanged.
  mutating func changes(in directory: TopologyDirectory, now: Int64) -> [JSONValue] {
    directory.nodes.compactMap { node in
      let status = LifecycleStatus(node)
      guard let former = lastStatuses.updateValue(status, forKey: node.name),
        former.incarnation != status.incarnation || former.phase != status.phase
      else { return nil }
      var record = status.record
      record["is"] = "life"
      record["node"] = .string(node.name)
      record["time"] = .integer(now)
      record["again"] = .bool(former.incarnation != status.incarnation)
      record["former"] = .object(former.record)
      return .object(record)
    }
  }
}

/// Detects when another orchestrator takes over a topology whose nodes keep running.
struct OrchestratorTracker {
  private var last: (pid: Int32, nodePIDs: Set<Int32>)?

  /// Returns a record if the orchestrator's process has changed since the last call, and the new
  /// orchestrator has adopted processes of nodes.
  mutating func takeover(in directory: TopologyDirectory, now: Int64) -> JSONValue? {
    let nodePIDs = Set(directory.nodes.compactMap(\.pid))
    defer { last = (directory.pid, nodePIDs) }
    guard let last, last.pid != directory.pid, !last.nodePIDs.isDisjoint(with: nodePIDs) else {
      return nil
    }
    return [
      "is": "takeover", "time": .integer(now), "pid": .integer(Int64(directory.pid)),
      "former": .integer(Int64(last.pid)),
      "adopted": .integer(Int64(last.nodePIDs.intersection(nodePIDs).count)),
    ]
  }
}
