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

  /// Logs are files, which are there while the topology does not run: of what ended it they tell.
  private func recordLogs() -> Task<Void, Never> {
    Task { [weak self, name, target] in
      guard target.remote == nil else { return await Self.followLogs { [weak self] in self } }
      guard let directory = try? RuntimeDirectories(topology: name).logs else { return }
      var logs = RecordedLogs(directory: directory)
      while !Task.isCancelled, let recorder = self?.recorder {
        recorder.write(logs.next())
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
