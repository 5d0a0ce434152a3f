import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A state of more than 1 MiB", .timed)
struct StateLimitTests {
  private static let limit = StateSizeLimit.maximumByteCount
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  private static func hoarder(_ byteCount: Int = 0) -> NodeSpecification {
    .machine(
      "Hoarder", name: "node", parameters: ["byteCount": .integer(Int64(byteCount))],
      restart: quick)
  }

  /// Expects that an event was refused because of the size of its new state.
  private func expectRefused(
    _ outcome: RequestOutcome, version: UInt64, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    guard case .refused(let refusal, _) = outcome else {
      Issue.record("\(outcome)", sourceLocation: sourceLocation)
      return
    }
    #expect(refusal == .stateTooLarge, sourceLocation: sourceLocation)
  }

  @Test("A request is refused if its new state would be too large, and the node continues")
  func request() async throws {
    let file = Topology(name: "hoard", program: "TestNodes", nodes: [Self.hoarder()])
    try await withTopology(file) { topology in
      for count in [Self.limit, 5 * Self.limit] {
        expectRefused(
          try await topology.send("node", Hoarder.Event.grow(byteCount: count)), version: 0)
      }
      let tool = CommandLineTool(beside: topology)
      let sent = try await tool.run("send", "node", "{\"grow\":{\"byteCount\":2000000}}", code: 1)
      #expect(sent.error.contains(Refusal.stateTooLarge.wording), "\(sent)")
      let why = try await tool.run("why", "node", "{\"grow\":{\"byteCount\":2000000}}", code: 4)
      #expect(why.output.contains(Refusal.stateTooLarge.wording), "\(why)")
      let met = try await topology.send("node", Hoarder.Event.meet)
      #expect(met == .accepted(version: 1, state: ["holding": ["met": 1, "text": ""]]))
      #expect(try await topology.status("node").incarnation == 1)
    }
  }

  @Test("A pipe's event becomes a dead letter if its new state would be too large")
  func pipe() async throws {
    let file = Topology(
      name: "hoard", program: "TestNodes",
      nodes: [.machine("Button", name: "button"), Self.hoarder()],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "node", send: ["grow": ["byteCount": 3_000_000]],
          name: "goods")
      ])
    try await withTopology(file) { topology in
      let node = try await topology.expectStatus(of: "node", "a letter") {
        $0.status?.deadLetters == 1
      }
      #expect(node.status?.recentDeadLetters.first?.reason == "refused: stateTooLarge")
      #expect(node.status?.version == 0)
    }
  }

  @Test("A participant refuses a synchronized event if the new state would be too large")
  func synchronized() async throws {
    var file = Parties.pair()
    file.nodes[0] = .machine("Hoarder", name: "left", restart: Self.quick)
    try await withTopology(file) { topology in
      // With one more digit in the number of meetings, the state is too large.
      let overhead = "{\"holding\":{\"met\":9,\"text\":\"\"}}".utf8.count
      try await topology.send("left", Hoarder.Event.grow(byteCount: Self.limit - overhead))
      for _ in 1...9 { #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted) }
      guard case .refused(let withheld) = try await topology.meet() else {
        Issue.record("not refused")
        return
      }
      #expect(withheld.map(\.participant) == ["left"])
      #expect(withheld.map(\.reason) == [.stateTooLarge])
    }
  }

  @Test(
    "A state that is too large is refused, even if the node measures its size only after a restart")
  func unmeasured() async throws {
    let file = Topology(name: "hoard", program: "TestNodes", nodes: [Self.hoarder()])
    try await withTopology(file) { topology in
      try await topology.send("node", Hoarder.Event.grow(byteCount: 400_000))
      for _ in 1...5 { try await topology.send("node", Hoarder.Event.meet) }
      expectRefused(
        try await topology.send(
          "node", Hoarder.Event.grow(byteCount: 5_000_000), timeout: .seconds(60)), version: 6)
      let node = try await topology.status("node")
      #expect(node.incarnation == 2)
      #expect(node.status?.version == 6)
      #expect(try await topology.send("node", Hoarder.Event.meet).version == 7)
    }
  }

  @Test(
    "A recorded state over the limit cannot grow, and a state over the message limit is an error")
  func older() async throws {
    // The other node keeps the topology running when this one has failed.
    let file = Topology(
      name: "hoard", program: "TestNodes",
      nodes: [Self.hoarder(), .machine("Button", name: "other")])
    try await withTopology(file) { topology in
      try await topology.send("node", Hoarder.Event.meet)
      func write(_ byteCount: Int) async throws {
        try await topology.stop("node")
        let state =
          "{\"holding\":{\"met\":1,\"text\":\"\(String(repeating: "x", count: byteCount))\"}}"
        try JournalFile(of: "node", in: topology).run(
          "UPDATE record SET state = '\(state)' WHERE id = (SELECT max(id) FROM record)")
      }
      try await write(2_000_000)
      try await topology.start("node")
      try await topology.expectLog("node", contains: "bytes as JSON; the limit is \(Self.limit)")
      expectRefused(
        try await topology.send("node", Hoarder.Event.grow(byteCount: 2_000_001)), version: 1)
      #expect(
        try await topology.send("node", Hoarder.Event.grow(byteCount: 1_900_000)).version == 2)
      #expect(try await topology.send("node", Hoarder.Event.grow(byteCount: 7)).version == 3)
      expectRefused(
        try await topology.send("node", Hoarder.Event.grow(byteCount: 2_000_000)), version: 3)

      try await write(5_000_000)
      _ = try? await topology.start("node")
      let node = try await topology.expectStatus(of: "node", "its failure") { $0.phase == "failed" }
      #expect(
        node.reason?.contains("orchestrator reset node") == true, "\(node.reason ?? "")")
    }
  }

  @Test("An initial state that is too large causes an error in the topology file")
  func initial() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      Topology(name: "hoard", program: "TestNodes", nodes: [Self.hoarder(2_000_000)]).yaml,
      to: "hoard.yaml")
    let result = try await tool.run("check", "hoard.yaml", code: 2)
    #expect(result.error.contains(" \(Self.limit) [bad-parameters]"), "\(result)")
  }
}

extension RequestOutcome {
  /// The version after an accepted event.
  fileprivate var version: UInt64? {
    if case .accepted(let version, _) = self { version } else { nil }
  }
}
