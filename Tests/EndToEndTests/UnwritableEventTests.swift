import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Events that cannot be encoded", .timed)
struct UnwritableEventTests {
  private static let whispers = """
    topology: whispers
    program: TestNodes
    nodes:
      button: { machine: Button }
      friend: { machine: Confidant, restart: { backoff: { initial: 10ms } } }
      stranger: { machine: Confidant }
    pipes:
      - name: whispers
        from: button
        when: pressed
        to: friend
        send: { secret: { _0: hush } }
        on_refused: postpone
      - { name: gossip, from: friend.out, to: stranger }
    """
  private static let reason =
    "refused: noTransition; the event cannot be postponed: a secret cannot be encoded"

  private func expectLetters(_ count: UInt64, in topology: TopologyHarness) async throws {
    let friend = try await topology.expectStatus(of: "friend", "\(count) letters") {
      $0.status?.deadLetters == count
    }
    let deadLetter = try #require(friend.status?.recentDeadLetters.last)
    #expect(deadLetter.pipe == "whispers" && deadLetter.sequence == count)
    #expect(deadLetter.reason == Self.reason)
    #expect(deadLetter.state == "deaf" && deadLetter.event == .null)
    #expect(friend.status?.refused == count)
    #expect(friend.status?.ins.first?.waiting == 0)
  }

  @Test(
    "An event that cannot be encoded is not postponed but becomes a dead letter with the reason")
  func postponed() async throws {
    try await withTopology(yaml: Self.whispers) { topology in
      // The button sends an event on entry into its first state.
      try await expectLetters(1, in: topology)
      try await topology.expectLog("friend", contains: Self.reason + ", in state \"deaf\"")
      try await topology.send("button", Button.Event.press)
      try await expectLetters(2, in: topology)

      try await topology.kill("friend")
      let friend = try await topology.expectStatus(of: "friend", "its next process") {
        $0.incarnation == 2 && $0.status?.state != nil
      }
      #expect(friend.status?.deadLetters == 2)
      #expect(friend.status?.recentDeadLetters.map(\.reason) == [Self.reason, Self.reason])

      try await topology.send("friend", Confidant.Event.listen)
      try await topology.send("button", Button.Event.press)
      try await topology.expect("friend", Confidant.State.listening(heard: 1))
      #expect(try await topology.status("friend").status?.deadLetters == 2)
    }
  }

  @Test("An event that cannot be encoded for its port is counted, and 'describe' shows the count")
  func sent() async throws {
    try await withTopology(yaml: Self.whispers) { topology in
      try await topology.send("friend", Confidant.Event.listen)
      try await topology.send("button", Button.Event.press)
      let friend = try await topology.expectStatus(of: "friend", "two secrets are done with") {
        $0.status?.ins.first?.applied == 2
      }
      // The first event may have been refused or accepted, depending on the state that it found.
      let count = try #require(friend.status?.outs.first?.unsendable)
      #expect(count == 2 || count == 3)
      #expect(friend.status?.outs.first?.events == 0)
      try await topology.expectLog(
        "friend", contains: "pipe 'gossip': ")

      let tool = CommandLineTool(beside: topology)
      let text = try await tool.run("describe", "friend")
      #expect(text.output.contains("gossip  0 sent, 0 applied, "), "\(text)")
      #expect(text.output.contains(", \(count) not sendable\n"), "\(text)")
      let json = try await tool.run("describe", "friend", "-o", "json")
      let out = try #require(try tool.out(ofDescribed: json.output), "\(json)")
      #expect(out["unsendable"] == .integer(Int64(count)) && out["lost"] == 0, "\(json)")
    }
  }
}
