import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Composites that change between two runs", .timed, .enabled(if: RecordedNodes.arePossible))
struct ChangedCompositeTests {
  private static func parties(_ composites: String, third: String = "machine: Party") -> String {
    """
    topology: parties
    program: TestNodes
    nodes:
      left: { machine: Party }
      right: { machine: Party }
      third: { \(third) }
    composites:
    \(composites)
    timeouts: { heartbeat: 60s }
    """
  }

  private static let pair = "  pair: { components: [left, right], synchronize: [meet] }\n"

  private static func meet(
    _ composites: String..., in parties: DetachedTopology
  ) async throws {
    let client = try parties.client()
    defer { client.close() }
    for composite in composites {
      let reply = try await client.synchronize(
        composite, Party.Event.meet, mode: .await(.seconds(60)))
      #expect(reply.isCommitted, "\(composite): \(reply)")
    }
  }

  @Test("Participants follow a renamed coordinator although its epochs start from one")
  func renamed() async throws {
    try await DetachedTopology.with(Self.parties(Self.pair), name: "parties") { parties in
      for _ in 0..<2 { try await parties.run("restart", "pair") }
      try await Self.meet("pair", "pair", in: parties)
      try await parties.run("down")
      let other = "  other: { components: [right, third], synchronize: [meet] }\n"
      try parties.write(Self.parties(other + Self.pair))
      try await parties.up()
      try await Self.meet("pair", "other", "pair", in: parties)
      try await parties.run("down")
    }
  }

  @Test("A pipe repeats no event when it is redirected from a node to a composite and back")
  func turned() async throws {
    let dying =
      "machine: Party, restart: { policy: never }, "
      + "environment: { PIPERUNTIME_FAILPOINTS: record.after=crash@2 }"
    func file(_ third: String, _ composite: String, to receiver: String) -> String {
      Self.parties(composite, third: third)
        + "\npipes: [{ name: moves, from: left, when: unwilling, to: \(receiver), send: meet }]\n"
    }
    let old = "  others: { components: [left, right], synchronize: [step] }\n"
    try await DetachedTopology.with(file(dying, old, to: "third"), name: "parties") { parties in
      // The node dies after it has applied the first event, and before it has acknowledged the
      // event.
      try await Self.send("left", .disagree, in: parties)
      try await parties.await("the third one is dead") { $0[node: "third"]?.phase == "failed" }
      try await parties.run("down")
      let new = "  pair: { components: [right, third], synchronize: [meet] }\n"
      try parties.write(file("machine: Party", new, to: "pair"))
      try await parties.up()
      try await Self.send("left", .agree, in: parties)
      try await Self.send("left", .disagree, in: parties)
      let met = try JSONValue(encoding: Party.State.willing(met: 1, steps: 0))
      let twice = try JSONValue(encoding: Party.State.willing(met: 2, steps: 0))
      try await parties.await("one more") {
        $0[node: "left"]?.status?.outs.first?.applied == 2
          && $0[node: "right"]?.status?.state == met && $0[node: "third"]?.status?.state == twice
      }
      #expect(
        try parties.log("left").contains {
          $0.contains("pipe 'moves' was redirected from 'third' to 'pair': 'third' has accepted")
        })
      // Redirects the pipe back to the node. The composite has processed the second event.
      try await parties.run("down")
      try parties.write(file("machine: Party", old, to: "third"))
      try await parties.up()
      try await Self.send("left", .agree, in: parties)
      try await Self.send("left", .disagree, in: parties)
      let thrice = try JSONValue(encoding: Party.State.willing(met: 3, steps: 0))
      try await parties.await("one more again") {
        $0[node: "left"]?.status?.outs.first?.applied == 3
          && $0[node: "third"]?.status?.state == thrice
      }
      try await parties.run("down")
    }
  }

  private static func send(
    _ node: String, _ event: Party.Event, in parties: DetachedTopology
  ) async throws {
    let client = try parties.client()
    defer { client.close() }
    try await client.send(node, event)
  }

  @Test("Pending events of a removed coordinator make 'apply' fail, or are reported as lost")
  func leftBehind() async throws {
    func file(_ composites: String) -> String {
      Self.parties(composites).replacing(
        "composites:", with: "  counter: { machine: Party }\ncomposites:")
        + "\npipes: [{ name: moves, from: pair, when: { left: willing }, to: counter, send: step }]\n"
    }
    let other = "  other: { components: [right, third], synchronize: [meet] }\n"
    try await DetachedTopology.with(file(Self.pair), name: "parties") { parties in
      let once = try JSONValue(encoding: Party.State.willing(met: 0, steps: 1))
      try await parties.await("the first one") { $0[node: "counter"]?.status?.state == once }
      try await parties.run("stop", "counter")
      try await Self.send("left", .step, in: parties)
      try await parties.await("it waits") {
        $0[node: "pair"]?.status?.outs.first.map { $0.events > $0.applied } == true
      }
      try parties.write(file(other + Self.pair))
      for options in [[], ["--dry-run"]] {
        let refused = try await parties.run(["apply", "parties.yaml"] + options, code: 1)
        #expect(
          refused.error.contains(
            "the coordinator of composite 'pair' would change from 'pair' to 'other', and "
              + "the pending events of pipe 'moves' (1) would be lost; "), "\(refused)")
        #expect(refused.output.isEmpty == options.isEmpty, "\(refused)")
      }

      try await parties.run("down")
      try await parties.up()
      let lost = "pipe 'moves': 1 events from process 'pair' to 'counter' are lost"
      #expect(try parties.log("other").contains { $0.contains(lost) })
      try await parties.await("it is counted") {
        $0[node: "other"]?.status?.outs.first?.lost == 1
      }
      // Events reported as lost are not delivered later.
      try await parties.run("down")
      try parties.write(file(Self.pair))
      try await parties.up()
      // The composite has no state until it has the states of both nodes.
      let more: UInt64? = try await poll(every: .milliseconds(50), within: .seconds(60)) {
        try await Self.send("left", .step, in: parties)
        let events = try await parties.directory()[node: "pair"]?.status?.outs.first?.events
        return events.flatMap { $0 > 2 ? $0 : nil }
      }
      #expect(more != nil)
      try await parties.await("all but the one that is lost") {
        guard let out = $0[node: "pair"]?.status?.outs.first, out.events == out.applied else {
          return false
        }
        let taken = Party.State.willing(met: 0, steps: Int(out.events) - 1)
        return $0[node: "counter"]?.status?.state == (try? JSONValue(encoding: taken))
      }
      try await parties.run("down")
    }
  }

  @Test("A node that leaves a composite is removed from its coordinator's journal")
  func left() async throws {
    func file(_ components: String) -> String {
      Self.parties("  pair: { components: [\(components)], synchronize: [meet] }\n")
        + "\npipes: [{ name: moves, from: pair, when: { left: unwilling }, to: third, send: step }]\n"
    }
    try await DetachedTopology.with(file("left, right, third"), name: "parties") { parties in
      func known() throws -> [String] {
        try JournalFile(of: "pair", topology: "parties", roots: parties.tool.directory.roots)
          .run("SELECT key FROM meta WHERE key GLOB 'component *' ORDER BY key")
      }
      try await parties.await("all have reported") {
        $0[node: "pair"]?.status?.ins.allSatisfy { $0.applied > 0 } == true
      }
      let all = ["component left", "component right", "component third"]
      #expect(try await poll(within: .seconds(20)) { try known() == all ? true : nil } == true)
      try parties.write(file("left, right"))
      try await parties.run("apply", "parties.yaml")
      try await parties.run("down")
      #expect(try known() == ["component left", "component right"])
    }
  }

  @Test("A coordinator does not wait for a former participant's acknowledgment")
  func gone() async throws {
    let all = "  pair: { components: [left, right, third], synchronize: [meet] }\n"
    let dying =
      "machine: Party, restart: { policy: never }, "
      + "environment: { PIPERUNTIME_FAILPOINTS: commit.received=crash }"
    try await DetachedTopology.with(Self.parties(all, third: dying), name: "parties") { parties in
      try await Self.meet("pair", in: parties)
      try await parties.await("the third one is dead") { $0[node: "third"]?.phase == "failed" }
      try await parties.run("down")
      try parties.write(Self.parties(Self.pair))
      try await parties.up()
      try await Self.meet("pair", in: parties)
      #expect(try parties.log("pair").contains { $0.contains("is no longer a participant") })
      try await parties.run("down")
    }
  }
}
