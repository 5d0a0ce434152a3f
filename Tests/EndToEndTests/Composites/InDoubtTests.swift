import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Participants in doubt", .timed, .enabled(if: RecordedNodes.arePossible))
struct InDoubtTests {
  /// Returns a pair whose coordinator performs this failpoint action between the votes of all
  /// participants and the decision.
  private static func pair(_ action: String, backoff: Duration = .milliseconds(1)) -> Topology {
    var pair = Parties.pair(
      environment: ["PIPERUNTIME_FAILPOINTS": "pair:commit.before=\(action)@1/1"])
    for index in pair.nodes.indices {
      pair.nodes[index].restart.backoff = Backoff(initial: backoff, max: backoff, jitter: 0)
    }
    return pair
  }

  private static func willing(_ met: Int) throws -> JSONValue {
    let state = try JSONValue(encoding: Party.State.willing(met: met, steps: 0))
    return ["left": state, "right": state]
  }

  /// Collects the changes of a state stream until they satisfy the condition.
  private static func changes(
    _ stream: StateStream, until isEnough: @escaping @Sendable (StateChange) -> Bool
  ) async throws -> [StateChange] {
    let found = try await unlessStalled(for: .seconds(20)) {
      var found: [StateChange] = []
      for await change in stream {
        found.append(change)
        if isEnough(change) { return found as [StateChange]? }
      }
      return nil
    }
    guard let found, let found else { throw UnexpectedResult("it did not come") }
    return found
  }

  /// Requests the event with a separate client, which can be closed before the reply.
  private static func meet(_ topology: TopologyHarness) throws -> TopologyClient {
    let caller = try TopologyClient(
      topology: topology.topology, control: topology.control,
      answerTimeout: TopologyHarness.clientTimeout)
    Task { _ = try? await caller.synchronize("pair", Party.Event.meet, timeout: .seconds(60)) }
    return caller
  }

  @Test("Participants of a suspended coordinator are in doubt until the transaction commits")
  func commit() async throws {
    try await withTopology(Self.pair("stop")) { topology in
      let plain = try await topology.states(of: ["pair", "left"])
      let reported = try await topology.client.states(of: ["pair"], reportingInDoubt: true)
      let caller = try Self.meet(topology)
      defer { caller.close() }
      let marked = try await Self.changes(reported) { $0.doubts.count == 2 }
      let before = try Self.willing(0)
      #expect(marked.allSatisfy { $0.state == before && $0.node == "pair" })
      let doubts = try #require(marked.last).doubts
      #expect(doubts.map(\.participant) == ["left", "right"])
      #expect(doubts.allSatisfy { $0.composite == "pair" && $0.event == "meet" })
      let transaction = doubts[0].transaction
      #expect(doubts[1].transaction == transaction)
      try await topology.expectLog("pair", contains: "failpoint commit.before: stop")
      let now = WallClock.nanoseconds
      #expect(doubts.allSatisfy { $0.since <= now && $0.since > now - 60_000_000_000 })

      let directory = try await topology.directory()
      #expect(directory[node: "left"]?.doubts == [doubts[0]])
      #expect(directory[node: "pair"]?.doubts == doubts)
      let why = try await topology.client.why("pair", json: "meet", timeout: .seconds(3))
      #expect(
        why.events[0].blockingAnswers.map(\.blocker) == [
          .silent(.seconds(3)), .inDoubt(doubts[0]), .inDoubt(doubts[1]),
        ])
      let step = try await topology.client.why("left", json: "step")
      #expect(step.events[0].blockingAnswers.map(\.blocker) == [.inDoubt(doubts[0])])

      try await topology.resume("pair")
      let rest = try await Self.changes(reported) { $0.doubts.isEmpty }
      // The node is reported as in doubt until the change to the committed state.
      #expect(try rest.last?.state == Self.willing(1))
      try await topology.expectEnabled("meet", of: "pair")
      // A client that does not ask for reports about nodes in doubt receives each state once.
      let states = try await Self.changes(plain) { $0.node == "left" && $0.version == 1 }
      let versions = states.filter { $0.node == "left" }.map(\.version)
      #expect(versions == [0, 1])
    }
  }

  @Test("Participants stay in doubt until the restarted coordinator aborts the transaction")
  func abort() async throws {
    let pair = Self.pair("crash", backoff: .seconds(600))
    try await withTopology(pair) { topology in
      let reported = try await topology.client.states(of: ["pair"], reportingInDoubt: true)
      let caller = try Self.meet(topology)
      let marked = try await Self.changes(reported) { $0.doubts.count == 2 }
      // An open client would repeat its request to the next coordinator.
      caller.close()
      let before = try Self.willing(0)
      #expect(marked.last?.state == before)
      try await topology.expectStatus(of: "pair", "a pause") { $0.phase == "backing off" }
      let why = try await topology.client.why("pair", json: "meet")
      guard case .down? = why.events[0].blockingAnswers.first?.blocker else {
        throw UnexpectedResult("its coordinator is down, not \(why)")
      }
      try await topology.start("pair")
      let rest = try await Self.changes(reported) { $0.doubts.isEmpty }
      #expect(rest.allSatisfy { $0.state == before })
      try await topology.expectEnabled("meet", of: "pair")
      #expect(try await topology.directory().nodes.allSatisfy(\.doubts.isEmpty))
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      try await topology.expectMet(1)
    }
  }

  @Test("A restarted participant is in doubt about the same transaction again")
  func restart() async throws {
    try await withTopology(Self.pair("stop")) { topology in
      let reported = try await topology.client.states(of: ["pair"], reportingInDoubt: true)
      let caller = try Self.meet(topology)
      defer { caller.close() }
      let marked = try await Self.changes(reported) { $0.doubts.count == 2 }
      let before = try #require(marked.last).doubts[0]
      try await topology.expectLog("pair", contains: "failpoint commit.before: stop")
      try await topology.kill("left")
      let again = try await topology.expectStatus(of: "left", "its doubt") {
        $0.incarnation == 2 && !$0.doubts.isEmpty
      }
      let doubt = try #require(again.doubts.first)
      #expect(doubt.transaction == before.transaction)
      #expect(doubt.since > before.since)
      try await topology.resume("pair")
      try await topology.expectMet(1)
      let rest = try await Self.changes(reported) { $0.doubts.isEmpty }
      #expect(try rest.last?.state == Self.willing(1))
    }
  }

  @Test("'monitor', 'ps' and 'describe' mark participants in doubt, as text and as JSON")
  func verbs() async throws {
    try await withTopology(Self.pair("stop")) { topology in
      let tool = CommandLineTool(beside: topology)
      let text = try tool.start(["monitor", "pair"])
      let json = try tool.start(["monitor", "pair", "-o", "jsonl"])
      for monitor in [text, json] {
        #expect(try await monitor.waitForOutput(containing: "met"))
      }
      let caller = try Self.meet(topology)
      defer { caller.close() }
      #expect(
        try await text.waitForOutput(containing: "IN DOUBT: 'left' in doubt in transaction"))
      #expect(try await json.waitForOutput(containing: #""doubts":[{"composite":"pair""#))
      try await topology.expectLog("pair", contains: "failpoint commit.before: stop")
      try await topology.expectStatus(of: "pair", "two doubts") { $0.doubts.count == 2 }
      let ps = try await tool.run("ps")
      #expect(
        ps.output.split(separator: "\n").count { $0.contains("  IN DOUBT in ") } == 3, "\(ps)")
      let describe = try await tool.run("describe", "pair")
      #expect(describe.output.contains("  in doubt      'left' in doubt in"), "\(describe)")
      let why = try await tool.run("why", "left", "step", code: 4)
      #expect(why.output.contains("the node is in doubt in transaction"), "\(why)")
      let record = try await tool.run("ps", "-o", "jsonl")
      let lines = try record.output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
      for line in lines {
        guard case .array(let doubts)? = line["doubts"] else {
          throw UnexpectedResult("doubts, not \(line.text)")
        }
        #expect(doubts.count == (line["node"] == "pair" ? 2 : 1))
        #expect(doubts.allSatisfy { $0["event"] == "meet" })
      }
      try await topology.resume("pair")
      #expect(try await text.waitForOutput(containing: "no longer in doubt"))
      try await topology.expectMet(1)
      let calm = try await tool.run("ps")
      #expect(!calm.output.contains("IN DOUBT"), "\(calm)")
      for monitor in [text, json] {
        monitor.signal(.terminate)
        #expect(try await monitor.waitForExit(within: .seconds(10)) != nil)
      }
    }
  }
}
