import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The messages of a feed for each kind of subscription", .timed)
struct FeedKindsTests {
  private static let numbers = """
    topology: numbers
    program: TestNodes
    timeouts: { heartbeat: 60s }
    nodes: { source: { machine: Source }, sink: { machine: Sink } }
    pipes: [{ from: source.out, to: sink.in, name: numbers, capacity: 8192 }]
    """

  /// Options with which the harness itself subscribes to no states.
  private static let unwatched: TopologyHarness.Options = {
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    return options
  }()

  /// Makes the source send N more numbers, as soon as it has sent all earlier numbers.
  private func go(_ topology: TopologyHarness, _ count: Int) async throws {
    let isTaken: Bool? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
      guard case .accepted = try await topology.send("source", Source.Event.go(count: count)) else {
        return nil
      }
      return true
    }
    #expect(isTaken == true)
  }

  /// Sends numbers one at a time until the condition holds. A subscription takes time to reach the
  /// node.
  /// - Returns: The number of events sent.
  private func send(
    to topology: TopologyHarness, until isSatisfied: () -> Bool
  ) async throws -> Int {
    var sent = 0
    let isReached: Bool? = try await poll(every: .milliseconds(10), within: .seconds(20)) {
      if isSatisfied() { return true }
      sent += 1
      try await go(topology, 1)
      return nil
    }
    #expect(isReached == true)
    return sent
  }

  /// Makes the sink accept N numbers as fast as possible.
  /// - Returns: The time of the start.
  private func flood(
    _ topology: TopologyHarness, _ count: Int
  ) async throws -> ContinuousClock.Instant {
    let sent = try await topology.status("source").status?.outs.first?.events ?? 0
    try await topology.pause("sink")
    try await go(topology, count)
    try await topology.expectStatus(of: "source", "all sent") {
      ($0.status?.outs.first?.events ?? 0) >= sent + UInt64(count)
    }
    let start = ContinuousClock.now
    try await topology.resume("sink")
    return start
  }

  @Test("A subscriber to the empty prefix gets states and no other messages")
  func everything() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      let feed = try await topology.status("sink").feed
      let socket = try Socket(.subscriber, in: Context())
      defer { socket.close() }
      try socket.connect(feed)
      try socket.subscribe(to: [])
      var kinds: [FrameKind] = []
      func read() throws {
        while socket.receive({ _, bytes in
          if let header = try? FrameHeader(bytes) { kinds.append(header.kind) }
        }) {}
      }
      _ = try await send(to: topology) {
        try? read()
        return kinds.count >= 20
      }
      #expect(kinds.allSatisfy { $0 == .state })
    }
  }

  @Test("Summaries come at most ten times a second and count every transition")
  func summaries() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      let start = ContinuousClock.now
      let collected = StreamCollector(try await topology.client.states(of: ["sink"], .latest))
      let first = try await poll(within: .seconds(20)) { collected.all.first }
      #expect(first?.version == 0 && first?.summary?.status?.events == 0)
      #expect(first?.summary?.transitions == TransitionCounts(since: 0))
      var total: UInt64 = 0
      for _ in 1...10 {
        try await go(topology, 200)
        total += 200
        // Sends one number after another, so that the state changes all the time.
        try await topology.expectStatus(of: "sink", "\(total) numbers") {
          $0.status?.version == total
        }
      }
      let last = try await poll(within: .seconds(20)) {
        collected.all.last.flatMap { $0.version == total ? $0 : nil }
      }
      let elapsed = start.duration(to: .now)
      #expect(last?.state == ["counting": ["count": 2000, "last": 2000, "wrong": 0]])
      #expect(
        last?.summary?.transitions
          == TransitionCounts(since: 0, counts: ["counting": ["number": total]]))
      #expect(last?.summary?.status?.ins.first?.applied == total)
      #expect(Double(collected.all.count) <= elapsed / .milliseconds(100) + 2)
      // Skipped changes are counted.
      #expect(
        collected.all.reduce(0) { $0 + $1.missedCount + ($1.isRepeated ? 0 : 1) } == total + 1)
    }
  }

  @Test("Counters that change without a step are reported once")
  func counters() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      let collected = StreamCollector(try await topology.client.states(of: ["source"], .latest))
      #expect(try await poll(within: .seconds(20)) { collected.all.first?.version } == 0)
      for refused: UInt64 in 1...2 {
        let outcome = try await topology.client.send("source", Source.Event.next)
        #expect(outcome == .refused(.noTransition, state: ["idle": ["sent": 0]]))
        let last = try await poll(within: .seconds(20)) {
          collected.all.last.flatMap { $0.summary?.status?.refused == refused ? $0 : nil }
        }
        #expect(last?.version == 0 && last?.missedCount == 0 && last?.isRepeated == true)
        // A new subscriber receives the counters, and so do all others.
        let other = StreamCollector(try await topology.client.states(of: ["source"], .latest))
        let first = try await poll(within: .seconds(20)) { other.all.first?.summary?.status }
        #expect(first?.refused == refused)
      }
      try await go(topology, 1)
      let all = try await poll(within: .seconds(20)) {
        collected.all.last?.version == 2 ? collected.all : nil
      }
      let summaries = try #require(all).map(\.summary)
      #expect(zip(summaries, summaries.dropFirst()).allSatisfy { $0 != $1 })
    }
  }

  @Test("A node buffers no more than its limit for a subscriber that does not read")
  func bound() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      let socket = try Socket(.subscriber, in: Context())
      defer { socket.close() }
      try socket.setHighWaterMark(100)
      try socket.connect(try await topology.status("sink").feed)
      try socket.subscribe(to: FeedTopic.states(areCommitted: nil).bytes)
      var versions: [UInt64] = []
      func read() {
        while socket.receive({ _, bytes in
          if let header = try? FrameHeader(bytes) { versions.append(header.sequence) }
        }) {}
      }
      let sent = try await send(to: topology) {
        read()
        return !versions.isEmpty
      }
      let count = 3 * Int(FeedSubscriptions.queueLimit) / 2
      try await go(topology, count)
      let last = try await topology.expectStatus(of: "sink", "all of them") {
        $0.status?.version == UInt64(sent + count)
      }
      let before = versions.count
      // Reads the buffered messages. When no message has come for a while, requests the last
      // message.
      var idle = 0
      let isRead: Bool? = try await poll(every: .milliseconds(2), within: .seconds(60)) {
        let count = versions.count
        read()
        if versions.last == last.status?.version { return true }
        idle = versions.count > count ? 0 : idle + 1
        if idle == 25 {
          idle = 0
          try socket.subscribe(to: FeedTopic.states(areCommitted: nil).bytes)
        }
        return nil
      }
      #expect(isRead == true)
      // Some messages are in the sockets between the two processes.
      #expect(versions.count - before < 5 * Int(FeedSubscriptions.queueLimit) / 4)
    }
  }

  @Test(
    "Transition counts start at zero whenever a node gets its first subscriber")
  func countedSince() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      try await go(topology, 5)
      try await topology.expectStatus(of: "sink", "5 numbers") { $0.status?.version == 5 }
      do {
        let version: UInt64 = 5
        let collected = StreamCollector(try await topology.client.states(of: ["sink"], .latest))
        let first = try await poll(within: .seconds(20)) {
          collected.all.first?.summary?.transitions
        }
        #expect(first == TransitionCounts(since: version))
        try await go(topology, 3)
        let last = try await poll(within: .seconds(20)) {
          collected.all.last.flatMap { $0.version == version + 3 ? $0.summary?.transitions : nil }
        }
        #expect(last?.total == 3 && last?.since == version)
      }
      // The node learns some time later that its subscribers have gone.
      let gone: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        let other = StreamCollector(try await topology.client.states(of: ["sink"], .latest))
        let first = try await poll(within: .seconds(20)) { other.all.first?.summary?.transitions }
        return first == TransitionCounts(since: 8) ? true : nil
      }
      #expect(gone == true)
    }
  }

  @Test("A step report contains the step's event, the event's origin, and the sent events")
  func step() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      let collected = StreamCollector(try await topology.client.steps())
      let sent = try await send(to: topology) {
        let steps = collected.all.compactMap { if case .step(let step) = $0 { step } else { nil } }
        // The step that started an effect is reported, too.
        let isWhole = steps.contains { next in
          steps.contains {
            $0.node == next.node && $0.version == next.effect && $0.cause == "request"
          }
        }
        return isWhole && Set(steps.map(\.cause)) == ["request", "effect", "numbers"]
      }
      let steps = collected.all.compactMap { if case .step(let step) = $0 { step } else { nil } }
      let request = try #require(steps.last { $0.node == "source" && $0.cause == "request" })
      #expect(request.event == ["go": ["count": 1]])
      #expect(request.request != nil && request.source == nil && request.transaction == nil)
      let number = try #require(request.sent?.first)
      #expect(request.sent?.count == 1 && number.pipe == "numbers")
      #expect(number.event == ["number": ["n": .integer(Int64(number.number))]])
      let next = try #require(steps.last { $0.node == "source" && $0.cause == "effect" })
      #expect(next.event == "next" && next.request == nil && next.sent == [])
      #expect(next.effect.map { $0 < next.version } == true && request.effect == nil)
      let taken = try #require(steps.last { $0.node == "sink" })
      #expect(taken.cause == "numbers" && taken.source?.pipe == "numbers")
      #expect(taken.source?.number == taken.version && taken.version <= UInt64(sent))
      #expect(taken.source?.stream == number.stream)
      #expect(taken.from?.caseName == "counting" && taken.state?.caseName == "counting")
      #expect(taken.sent == [] && taken.request == nil)
    }
  }

  @Test(
    "Refused and postponed events are reported with their reason and origin"
  )
  func refusals() async throws {
    let gates = """
      topology: gates
      program: TestNodes
      timeouts: { heartbeat: 60s }
      nodes:
        button: { machine: Button }
        refusing: { machine: Gate }
        patient: { machine: Gate }
      pipes:
        - { from: button, when: pressed, to: refusing, send: pass, name: refused }
        - { from: button, when: pressed, to: patient, send: pass, name: late, on_refused: postpone }
      """
    try await withTopology(yaml: gates, options: Self.unwatched) { topology in
      let (reported, continuation) = AsyncStream.makeStream(of: JSONValue.self)
      let frames = StreamCollector(reported)
      let nodes = try await topology.client.directory().nodes
      let following = try await topology.client.followSteps(of: nodes, ending: {}) { frame in
        guard let json = try? JSONValue(parsing: frame.json) else { return }
        #expect(frame.isRefusal == (json["refused"] != nil))
        continuation.yield(json)
      }
      defer { following.stop() }
      func first(_ node: String, _ cause: String) -> JSONValue? {
        frames.all.first {
          $0["node"] == .string(node) && $0["cause"] == .string(cause) && $0["refused"] != nil
        }
      }
      // A subscription takes time to reach the node.
      let isReported: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        try await topology.send("button", Button.Event.press)
        _ = try? await topology.client.deliver("shut", to: "refusing", timeout: .seconds(10))
        return [("refusing", "refused"), ("refusing", "request"), ("patient", "late")]
          .allSatisfy { first($0, $1) != nil } ? true : nil
      }
      #expect(isReported == true)
      let refused = try #require(first("refusing", "refused"))
      #expect(refused["refused"] == "refused: noTransition" && refused["event"] == "pass")
      #expect(refused["state"] == ["shut": ["passed": 0]] && refused["postponed"] == nil)
      #expect(refused["source"]?["pipe"] == "refused" && refused["source"]?["number"] != nil)
      #expect(refused["version"] == 0 && refused["index"] == 0 && refused["time"] != nil)
      let request = try #require(first("refusing", "request"))
      #expect(request["event"] == "shut" && request["request"]?["number"] != nil)
      let postponed = try #require(first("patient", "late"))
      #expect(postponed["postponed"] == true && postponed["refused"] == "refused: noTransition")
      // A postponed event is reported only one time, however often it is tried again. It is
      // accepted as soon as the state allows.
      try await topology.send("patient", "open")
      let number = postponed["source"]
      let isTaken: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        frames.all.contains { $0["source"] == number && $0["refused"] == nil } ? true : nil
      }
      #expect(isTaken == true)
      #expect(frames.all.count { $0["source"] == number } == 2)
    }
  }

  @Test(
    "A flood of steps is reported in bursts, with the exact number of steps skipped between bursts")
  func steps() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      let collected = StreamCollector(try await topology.client.steps(of: ["sink"]))
      let sent = try await send(to: topology) { !collected.all.isEmpty }
      let count = 5_000
      let start = try await flood(topology, count)
      let last = UInt64(sent + count)
      let messages = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        let all = collected.all
        guard case .step(let step)? = all.last, step.version == last else {
          return [FeedMessage]?.none
        }
        return all
      }
      var numbers = StepNumberCheck()
      for message in try #require(messages) { numbers.take(message) }
      #expect(numbers.gaps == [])
      // On a slow machine, it is possible that no step is skipped.
      let seconds = start.duration(to: .now) / .seconds(1)
      let most =
        FeedBudget.burstSize + sent + Int(seconds * Double(FeedBudget.maximumItemsPerSecond))
      #expect(numbers.collected >= FeedBudget.burstSize && numbers.collected <= most)
      #expect(UInt64(numbers.collected) + numbers.skipped == last - numbers.first + 1)
    }
  }

  @Test("A tap of a pipe reports only that pipe's events, and the exact number of skipped events")
  func tap() async throws {
    let two =
      Self.numbers.replacing(
        "sink: { machine: Sink } }", with: "sink: { machine: Sink }, b: { machine: Sink } }"
      )
      .replacing(
        "capacity: 8192 }]", with: "capacity: 8192 }, { from: source.out, to: b.in, name: others }]"
      )
    try await withTopology(yaml: two, options: Self.unwatched) { topology in
      let collected = StreamCollector(try await topology.client.tap("numbers"))
      let sent = try await send(to: topology) { !collected.all.isEmpty }
      try await go(topology, 3_000)
      let last = UInt64(sent + 3_000)
      let messages = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        let all = collected.all
        guard case .event(let event)? = all.last, event.number == last else {
          return [FeedMessage]?.none
        }
        return all
      }
      var before: UInt64?
      for case .event(let event) in try #require(messages) {
        #expect(event.node == "source" && event.pipe == "numbers")
        if let before { #expect(event.number == before + (event.skipped ?? 1)) }
        before = event.number
        if event.skipped == nil {
          #expect(event.event == ["number": ["n": .integer(Int64(event.number))]])
        }
      }
    }
  }

  @Test("A subscription to an unknown pipe causes an error that names the known pipes")
  func unknownPipe() async throws {
    try await withTopology(yaml: Self.numbers, options: Self.unwatched) { topology in
      await #expect(throws: TopologyClientError.unknownPipe("nmbers", known: ["numbers"])) {
        try await topology.client.tap("nmbers")
      }
    }
  }

  @Test("A composite reports summaries and steps, and its participants' steps name the transaction")
  func composite() async throws {
    try await withTopology(Parties.pair(), options: Self.unwatched) { topology in
      let states = StreamCollector(try await topology.client.states(of: ["pair"], .latest))
      let steps = StreamCollector(try await topology.client.steps(of: ["pair", "left"]))
      // Both processes report the transaction, in either order.
      let both: [NodeStep]? = try await poll(every: .milliseconds(10), within: .seconds(20)) {
        let collected = steps.all.compactMap { if case .step(let step) = $0 { step } else { nil } }
        for own in collected where own.node == "pair" && own.transaction != nil {
          let left = collected.last { $0.node == "left" && $0.transaction == own.transaction }
          if let left { return [own, left] }
        }
        _ = try await topology.meet()
        return nil
      }
      let (own, left) = (try #require(both?.first), try #require(both?.last))
      #expect(own.cause == "meet" && own.event == nil)
      #expect(left.event == "meet" && left.cause == "pair")
      let last = try await poll(within: .seconds(20)) {
        states.all.last.flatMap { $0.version >= own.version ? $0 : nil }
      }
      #expect(last?.node == "pair" && last?.summary?.status != nil)
      #expect(last?.summary?.transitions == nil)
    }
  }
}

/// Counts the reported steps and finds gaps between them.
private struct StepNumberCheck {
  private(set) var first: UInt64 = 0
  private(set) var collected = 0
  private(set) var skipped: UInt64 = 0
  /// The positions before which steps are missing.
  private(set) var gaps: [UInt64] = []
  private var last: UInt64?

  mutating func take(_ message: FeedMessage) {
    guard case .step(let step) = message else { return }
    if let last, step.index != last + (step.skipped ?? 1) { gaps.append(step.index) }
    if last == nil { first = step.index }
    last = step.index
    if let skipped = step.skipped { self.skipped += skipped } else { collected += 1 }
  }
}
