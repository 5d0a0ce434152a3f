import PipeClient
import PipeMachines
import PipeSupport
import PipeWire

/// Records a topology that runs, or will, under one name, for as long as this lives.
package final class LiveRecording: PageSource {
  /// The topology's name.
  package let name: String
  let target: TopologyTarget
  package let recorder: InspectionRecorder
  /// While the topology runs.
  let client = Locked<TopologyClient?>(nil)
  private let tasks = Locked<[Task<Void, Never>]>([])
  private let hasPast = Locked(false)

  /// Between two looks at which nodes there are, and how they live.
  private static let pause: Duration = .milliseconds(500)
  /// Between two looks at the logs.
  private static let logPause: Duration = .milliseconds(250)

  /// - Parameter target: One on this host is named.
  package init(_ target: TopologyTarget, name: String, room: Int = 64 << 20) {
    self.target = target
    self.name = name
    recorder = InspectionRecorder(room: room)
  }

  deinit { tasks.withLock { for task in $0 { task.cancel() } } }

  /// Begins to record.
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
          self?.lost(because: "\(error)")
        }
        try? await Task.sleep(for: Self.pause)
      }
    }
    tasks.withLock { $0 = [task, recordLogs()] }
  }

  /// Logs of this host are files, which are there while the topology does not run: they show what ended it.
  private func recordLogs() -> Task<Void, Never> {
    Task { [weak self, name, target] in
      guard target.remote == nil else { return await Self.followLogs { [weak self] in self } }
      guard let directory = try? RuntimeDirectories(topology: name).logs else { return }
      var logs = RecordedLogs(TopologyLogs(directory: directory, follows: true))
      while !Task.isCancelled, let recorder = self?.recorder {
        if let lines = try? await logs.next() { recorder.write(lines) }
        try? await Task.sleep(for: Self.logPause)
      }
    }
  }

  /// What takes more steps than may be told is asked for some now and then: it would feel to be asked all the time.
  private static let rest: Duration = .seconds(2)

  private static func rest(_ feed: String, of following: StepFollowing) {
    following.ask(feed, false)
    Task {
      try? await Task.sleep(for: rest)
      following.ask(feed, true)
    }
  }

  private func lost(because reason: String) {
    client.withLock { $0 = nil }
    recorder.keep(only: ["topology"])
    recorder.set(
      "topology",
      [
        "is": "topology", "topology": .string(name), "running": false, "phase": "down",
        "reason": .string(reason), "nodes": [], "pipes": [],
      ])
  }

  /// Begins with what was recorded before, once: what comes later is seen.
  private func addPast(of nodes: [NodeInformation]) {
    let isFirst = hasPast.withLock { hasPast in
      defer { hasPast = true }
      return !hasPast
    }
    guard isFirst else { return }
    // Journals of another host are not read here.
    guard target.remote == nil else { return }
    for step in RecordedPast.steps(of: nodes) { recorder.append(step) }
  }

  /// Records until the topology goes, or has other nodes.
  private func record(_ client: TopologyClient) async throws {
    let directory = try await client.directory(fresh: false)
    let nodes = directory.nodes.filter { $0.kind != .monitor }
    let composites = try await client.conflictClasses().flatMap(\.composites).map {
      ($0.name, $0.nodes)
    }
    let names = Dictionary(
      nodes.map { (FeedTopic.number(of: $0.name), $0.name) }, uniquingKeysWith: { one, _ in one })
    let recorder = recorder
    recorder.keep(only: ["topology"])
    addPast(of: nodes)
    let (busy, tellsBusy) = AsyncStream.makeStream(
      of: UInt32.self, bufferingPolicy: .bufferingNewest(nodes.count))
    let following = try await client.followSteps(of: nodes, ending: {}) { frame in
      if frame.tellsOfSkipped { tellsBusy.yield(frame.topic) }
      guard !recorder.append(frame.json), let node = names[frame.topic] else { return }
      recorder.append(frame.skeleton(of: node))
    }
    defer { following.stop() }
    let feeds = Dictionary(
      nodes.map { (FeedTopic.number(of: $0.name), $0.feedName) },
      uniquingKeysWith: { one, _ in one })
    let resting = Task {
      var rests: [String: ContinuousClock.Instant] = [:]
      for await topic in busy {
        // What was under way when it was parted from is no news.
        guard let feed = feeds[topic], rests[feed].map({ $0 <= .now }) ?? true else { continue }
        rests[feed] = .now + Self.rest + .milliseconds(100)
        Self.rest(feed, of: following)
      }
    }
    defer { resting.cancel() }
    let states = try await client.states(
      of: nodes.map(\.name), .latest, tellingInDoubt: true)
    let telling = Task {
      for await change in states { recorder.set("node \(change.node)", change.inspected) }
    }
    defer { telling.cancel() }
    var lives = NodeLives()
    var current = directory
    while current.nodes.map(\.feedName) == directory.nodes.map(\.feedName), !Task.isCancelled {
      for event in lives.changes(in: current, now: WallClock.nanoseconds) { recorder.append(event) }
      recorder.set("topology", current.inspected(composites))
      try await Task.sleep(for: Self.pause)
      current = try await client.directory(fresh: false)
    }
  }
}

extension FeedFrame {
  /// Whether it tells of no step, but of those that were left out. Such a frame is short.
  fileprivate var tellsOfSkipped: Bool {
    json.count < 512 && String(decoding: json, as: UTF8.self).contains("\"skipped\":")
      && (try? JSONValue(parsing: json))?["skipped"] != nil
  }

  /// What is recorded of a step, or of a refused event, that is too large.
  fileprivate func skeleton(of node: String) -> JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(node), "incarnation": .count(incarnation), "version": .count(version),
      "time": .integer(WallClock.nanoseconds), "large": .integer(Int64(json.count)),
    ]
    if isRefusal { record["refused"] = "it is too large to be shown" }
    return .object(record)
  }
}

extension LiveRecording {
  /// How long a node has to say what becomes of an event.
  private static let patience: Duration = .seconds(5)

  package func answer(_ question: PageQuestion) async throws -> JSONValue {
    if let client = client.withLock({ $0 }) { return try await tell(question, client) }
    // It may have come since it was last looked for.
    guard let client = try? TopologyClient.attach(to: target) else {
      throw PageProblem("topology '\(name)' does not run now")
    }
    defer { client.close() }
    return try await tell(question, client)
  }

  private func tell(_ question: PageQuestion, _ client: TopologyClient) async throws -> JSONValue {
    do {
      return try await answer(question, client)
    } catch {
      throw PageProblem("\(error)")
    }
  }

  private func answer(_ question: PageQuestion, _ client: TopologyClient) async throws -> JSONValue
  {
    switch question {
    case .machine(let node): return try JSONValue(encoding: await client.describe(node))
    case .enabled(let node): return try await client.enabledEvents(of: node).inspected
    case .state(let node): return try await state(of: node, client)
    case .letters(let node):
      return .array(
        try await client.letters(of: node).suffix(100).map { try JSONValue(encoding: $0) })
    case .send(let node, let event):
      switch try await client.deliver(event, to: node, timeout: Self.patience).outcome {
      case .node(let outcome): return outcome.inspected
      case .composite(let reply): return TransactionReply.atomic(reply).json
      }
    case .letter(let node, let id, drops: true):
      try await client.drop(letter: id, of: node, timeout: Self.patience)
      return ["outcome": "dropped"]
    case .letter(let node, let id, drops: false):
      return try await client.resend(letter: id, of: node, timeout: Self.patience).inspected
    }
  }
}

extension LiveRecording {
  /// How long a node has to tell its state.
  private static let statePatience: Duration = .seconds(2)

  /// All of it: what is told unasked is cut.
  private func state(of node: String, _ client: TopologyClient) async throws -> JSONValue {
    let states = try await client.states(of: [node], .latest)
    let found = await withTaskGroup(of: StateChange?.self) { group in
      group.addTask { await states.first { _ in true } }
      group.addTask {
        try? await Task.sleep(for: Self.statePatience)
        return nil
      }
      defer { group.cancelAll() }
      return await group.next() ?? nil
    }
    guard let found else {
      throw PageProblem("node '\(node)' does not tell its state: does it run?")
    }
    return ["version": .count(found.version), "state": found.state]
  }
}

extension RequestOutcome {
  fileprivate var inspected: JSONValue {
    switch self {
    case .moved(let version, let state):
      ["outcome": "moved", "version": .count(version), "state": state]
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
  /// Each event with its fields, and what is to be said of it.
  fileprivate var inspected: JSONValue {
    [
      "name": .string(name), "kind": .string(kind.rawValue),
      "version": version.map { .count($0) } ?? .null,
      "events": .array(
        events.map { event in
          [
            "event": .string(event.event.name), "composite": .optional(event.composite),
            "verdict": .string(event.verdict.rawValue),
            "participants": .texts(event.participants),
            "fields": .array(
              event.event.fields.map { ["name": .string($0.name), "type": .string($0.type)] }),
            "because": .array(
              event.withheld.map { answer in
                [
                  "participant": .string(answer.participant), "state": answer.state ?? .null,
                  "reason": .string(answer.obstacle?.description ?? ""),
                ]
              }),
          ]
        }),
    ]
  }
}

extension LiveRecording {
  /// Between two questions to the orchestrator.
  private static let remotePause: Duration = .milliseconds(500)

  /// Records what a topology of another host writes, as its orchestrator reads it, while that runs.
  static func followLogs(of recording: @escaping @Sendable () -> LiveRecording?) async {
    var following: (logs: RecordedLogs, client: ObjectIdentifier)?
    while !Task.isCancelled {
      guard let recording = recording() else { return }
      if let client = recording.client.withLock({ $0 }) {
        var (logs, former) =
          following ?? (RecordedLogs(TopologyLogs(client)), ObjectIdentifier(client))
        // Another connection goes on where the last one was; no line comes twice.
        if former != ObjectIdentifier(client) { logs.go(on: client) }
        if let lines = try? await logs.next() { recording.recorder.write(lines) }
        following = (logs, ObjectIdentifier(client))
      }
      try? await Task.sleep(for: remotePause)
    }
  }
}

/// Tells when nodes have begun, ended and come back.
struct NodeLives {
  private struct Life: Equatable {
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

  private var known: [String: Life] = [:]

  /// What has changed since the last time, with how it was before: who looks back wants to know that, too. Of a
  /// node that is seen for the first time nothing is told.
  mutating func changes(in directory: TopologyDirectory, now: Int64) -> [JSONValue] {
    directory.nodes.compactMap { node in
      let life = Life(node)
      guard let former = known.updateValue(life, forKey: node.name),
        former.incarnation != life.incarnation || former.phase != life.phase
      else { return nil }
      var record = life.record
      record["is"] = "life"
      record["node"] = .string(node.name)
      record["time"] = .integer(now)
      record["again"] = .bool(former.incarnation != life.incarnation)
      record["former"] = .object(former.record)
      return .object(record)
    }
  }
}

/// What an inspector's page shows: of a topology that runs, or of one that was recorded.
package protocol PageSource: Sendable {
  /// What has happened, and how all stands.
  var recorder: InspectionRecorder { get }
  /// Answers a question about the present.
  /// - Throws: ``PageProblem``.
  func answer(_ question: PageQuestion) async throws -> JSONValue
}

/// What a page asks, or asks for.
package enum PageQuestion: Hashable, Sendable {
  /// What a node's machine is.
  case machine(node: String)
  /// Which events a node, or a composite, takes now, and why it withholds the others.
  case enabled(node: String)
  /// The state of a node, however large it is.
  case state(node: String)
  /// The dead letters of a node.
  case letters(node: String)
  /// Sends an event.
  case send(node: String, event: JSONValue)
  /// Has a dead letter taken again, or drops it.
  case letter(node: String, id: UInt64, drops: Bool)
}

/// Why a question has no answer.
package struct PageProblem: Error, Hashable, Sendable {
  /// In words, with what to do.
  package var reason: String

  package init(_ reason: String) { self.reason = reason }
}
