import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// A flag that ends the callers' loops.
private final class End: Sendable {
  private let state = Locked(false)
  var hasArrived: Bool { state.withLock { $0 } }
  func arrive() { state.withLock { $0 = true } }
}

@Suite("Graceful restarts under load, with a pipe without durability", .timed)
struct OrderedRestartTests {
  /// The number of events that are sent at a time.
  private static let count = 8_000

  /// Returns a topology with a source, and a sink that checks the source's numbers. Both nodes
  /// resume from their journals. The pipe has no durability, so a lost number is missing at the
  /// sink.
  private static func numbers(capacity: Int = 256, work: Int = 50) -> Topology {
    var pipe = PipeSpecification.ports(
      from: "source.out", to: "sink.in", name: "numbers", capacity: capacity)
    pipe.durability = .volatile
    return Topology(
      name: "numbers", program: "TestNodes",
      nodes: [
        .machine("Source", name: "source"),
        .machine("Sink", name: "sink", parameters: ["work": .integer(Int64(work))]),
      ], pipes: [pipe],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
  }

  private static func launch(
    _ topology: Topology, _ body: (TopologyHarness) async throws -> Void
  ) async throws {
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    try await withTopology(topology, options: options, body)
  }

  /// Waits until the sink's state satisfies the condition.
  private static func expect(
    _ topology: TopologyHarness, _ description: String, where accepts: (Sink.State) -> Bool
  ) async throws -> (count: Int, wrong: Int, last: Int) {
    let sink = try await topology.expectStatus(of: "sink", description) { information in
      Self.state(of: information).map(accepts) ?? false
    }
    guard case .counting(let last, let count, let wrong)? = state(of: sink) else {
      throw UnexpectedResult("\(sink)")
    }
    return (count, wrong, last)
  }

  private static func state(of information: NodeInformation) -> Sink.State? {
    information.status?.state.flatMap { try? EventCodec<Sink.State>().decode($0.bytes) }
  }

  /// Waits until the sink is counting numbers while more are in flight.
  /// - Returns: The last number that the sink will get.
  private static func expectLoad(_ topology: TopologyHarness) async throws -> Int {
    var last = 0
    for _ in 1...20 {
      let before = last
      try await topology.expectStatus(of: "source", "all sent") {
        $0.status?.state == ["idle": ["sent": .integer(Int64(before))]]
      }
      try await topology.send("source", Source.Event.go(count: count))
      last += count
      let reached = try await expect(topology, "some numbers") {
        if case .counting(_, let count, _) = $0 { count > before + 500 } else { false }
      }
      // Otherwise, all numbers had arrived before the test read the states.
      if reached.last < last { return last }
    }
    throw UnexpectedResult("the sink has all numbers whenever it is looked at")
  }

  /// Restarts the nodes as a user does.
  private static func restart(_ nodes: String..., in topology: TopologyHarness) async throws {
    let tool = CommandLineTool(beside: topology)
    let program = try tool.start(["restart", "--timeout", "10m"] + nodes)
    let result = try await tool.end(of: program, within: .seconds(60))
    for node in nodes {
      #expect(result.output.contains("\(node): running, pid "), "\(result)")
      #expect(try await topology.status(node).incarnation == 2)
    }
  }

  @Test("A gracefully restarted sender first delivers its events and loses none")
  func sender() async throws {
    try await Self.launch(Self.numbers()) { topology in
      let all = try await Self.expectLoad(topology)
      try await Self.restart("source", in: topology)
      let end = try await Self.expect(topology, "the last number") {
        if case .counting(let last, _, _) = $0 { last == all } else { false }
      }
      #expect(end == (all, 0, all))
      #expect(try await topology.status("sink").status?.gaps == 0)
      #expect(!topology.logs("source").contains { $0.contains("were not delivered") })
    }
  }

  @Test(
    "When both ends of a pipe restart together, only events in flight are lost, and logged as lost")
  func bothEnds() async throws {
    try await Self.launch(Self.numbers()) { topology in
      let all = try await Self.expectLoad(topology)
      try await Self.restart("source", "sink", in: topology)
      let end = try await Self.expect(topology, "the last number") {
        if case .counting(let last, _, _) = $0 { last == all } else { false }
      }
      let lost = all - end.count
      let reported = Self.undelivered(topology.logs("source"))
      #expect(lost <= reported && reported <= 256, "\(lost) are lost, \(reported) are reported")
      // At most one gap, and no repeated number.
      #expect(end.wrong == (lost > 0 ? 1 : 0))
      #expect(topology.logs("sink").allSatisfy { !$0.contains("are lost") })
    }
  }

  /// Returns the number of undelivered events that the sender has logged.
  private static func undelivered(_ log: [String]) -> Int {
    log.reduce(0) { sum, line in
      guard let start = line.firstRange(of: "pipe 'numbers': "),
        let end = line.firstRange(of: " events were not delivered")
      else { return sum }
      return sum + (Int(line[start.upperBound..<end.lowerBound]) ?? 0)
    }
  }

  @Test(
    "A stopping coordinator completes its transactions, so its replies match the nodes' states"
  )
  func coordinator() async throws {
    let callers = 4
    try await withTopology(Parties.pair(durability: .volatile)) { topology in
      let end = End()
      let reported = try await withThrowingTaskGroup(of: [SynchronizedReply?].self) { group in
        for _ in 0..<callers {
          group.addTask {
            var replies: [SynchronizedReply?] = []
            while !end.hasArrived { replies.append(try await Self.meet(topology)) }
            return replies
          }
        }
        for incarnation in 2...4 {
          try await topology.expectStatus(of: "left", "to have met again") { information in
            guard let state = information.status?.state,
              let party = try? EventCodec<Party.State>().decode(state.bytes)
            else { return false }
            return party.met >= 20 * (incarnation - 1)
          }
          let tool = CommandLineTool(beside: topology)
          try await tool.run("restart", "pair", within: .seconds(60), code: 0)
          #expect(try await topology.status("pair").incarnation == UInt64(incarnation))
        }
        end.arrive()
        return try await group.reduce(into: []) { $0 += $1 }
      }
      let last = try await topology.meet(mode: .await(.seconds(300)))
      guard case .committed(_, let versions) = last else {
        Issue.record("the last event was not committed: \(last)")
        return
      }
      let committed = reported.count { $0?.isCommitted == true } + 1
      let unknown = reported.count {
        $0.map { if case .unknown = $0 { true } else { false } } ?? true
      }
      // Each step of a node is a synchronized event, so the version after the last event is the
      // number of all events.
      let left = Int(try #require(versions["left"]))
      try await topology.expectMet(left)
      #expect(committed <= left && left <= committed + unknown)
      for name in ["left", "right"] {
        #expect(!topology.logs(name).contains { $0.contains(ParticipantConflict.lostStep) })
      }
      #expect(!topology.logs("pair").contains { $0.contains("which is unknown") })
    }
  }

  @Test(
    "A coordinator that is stopped waits until all participants have received the committed events")
  func coordinatorWaits() async throws {
    let rules = [
      // The coordinator is stopped before any participant has the commit, and one participant is
      // slow to process the commit.
      "pair:commit.recorded=stop@1/1", "left:commit.received=delay:100ms@1/1",
      "pair:commit.finished=delay:1ms@1/1",
    ]
    let environment = [FailpointCounter.rulesVariable: rules.joined(separator: ",")]
    let pair = Parties.pair(environment: environment, durability: .volatile)
    try await withTopology(pair) { topology in
      async let reply = topology.meet(mode: .await(.seconds(300)))
      try await topology.expectLog("pair", contains: "failpoint commit.recorded: stop")
      let tool = CommandLineTool(beside: topology)
      let restart = try tool.start(["restart", "pair"])
      try await topology.expectStatus(of: "pair", "a stop request") { $0.phase == "stopping" }
      try await topology.resume("pair")
      try await tool.end(of: restart, within: .seconds(60))
      #expect(try await reply.isCommitted)
      try await topology.expectMet(1)
      let log = topology.logs("pair")
      let known = try #require(
        log.firstIndex { $0.contains("failpoint commit.finished") }, "\(log)")
      let end = try #require(log.firstIndex { $0.contains(" note ended: ") }, "\(log)")
      #expect(known < end, "\(log)")
    }
  }

  /// Requests the synchronized event.
  /// - Returns: The reply, or `nil` if the caller cannot know the outcome.
  private static func meet(_ topology: TopologyHarness) async throws -> SynchronizedReply? {
    do {
      return try await topology.meet()
    } catch TopologyClientError.unknownOutcome {
      return nil
    } catch TopologyClientError.nodeDown {
      return .unavailable("pair")
    }
  }
}
