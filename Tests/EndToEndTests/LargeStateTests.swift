import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes with large states", .timed)
struct LargeStateTests {
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  private static let scroll = Topology(
    name: "scroll", program: "TestNodes",
    nodes: [.machine("Scroll", name: "node", restart: quick)])

  /// A copy of the node's state, which takes the same steps in this process.
  private struct Copy {
    var count = 0
    var text = ""

    mutating func take(_ event: Scroll.Event) {
      count += 1
      switch event {
      case .fill(let byteCount): text = Scroll.text(byteCount)
      case .append(let more): text += more
      case .prepend(let more): text = more + text
      case .trim(let removed): text = String(text.dropFirst(removed).dropLast(removed))
      case .touch: break
      }
    }

    var state: Scroll.State { .holding(count: count, text: text) }
    var json: JSONValue {
      ["holding": ["count": .integer(Int64(count)), "text": .string(text)]]
    }
  }

  /// Sends an event, and expects the state after it.
  private func send(
    _ event: Scroll.Event, _ copy: inout Copy, _ topology: TopologyHarness,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    copy.take(event)
    let outcome = try await topology.send("node", event, timeout: .seconds(60))
    #expect(
      outcome == .accepted(version: UInt64(copy.count), state: copy.json),
      sourceLocation: sourceLocation)
  }

  private static func differenceCount(_ topology: TopologyHarness) throws -> Int {
    try JournalFile(of: "node", in: topology).integer(
      "SELECT count(*) FROM record WHERE base IS NOT NULL")
  }

  @Test("A large state with changes at both ends and in Unicode text survives each kill -9")
  func kills() async throws {
    try await withTopology(Self.scroll) { topology in
      var copy = Copy()
      let events: [Scroll.Event] = [
        .fill(byteCount: 200_000), .append(text: "é"), .prepend(text: "日本"), .touch,
        .append(text: "😀😁"), .trim(count: 1), .prepend(text: "\"\\\n\u{1}"), .trim(count: 3),
        .append(text: Scroll.text(30_000)), .trim(count: 50_000), .append(text: "è"),
        .trim(count: 100_000), .touch, .fill(byteCount: 300_000), .append(text: "end"),
      ]
      for (index, event) in events.enumerated() {
        try await send(event, &copy, topology)
        guard index % 3 == 2 else { continue }
        try await topology.kill("node")
        try await topology.expectStatus(of: "node", "its restored state") {
          $0.isRunning && $0.status?.state == copy.json
        }
      }
      try await send(.touch, &copy, topology)
      try await topology.expect("node", copy.state)
    }
  }

  @Test("The journal stores a large state as differences, and its readers get whole states")
  func journal() async throws {
    try await withTopology(Self.scroll) { topology in
      var copy = Copy()
      try await send(.fill(byteCount: 100_000), &copy, topology)
      var states = [copy.json]
      for text in ["é", "日本", "😀", "\"\\\n"] {
        try await send(.append(text: text), &copy, topology)
        states.append(copy.json)
      }
      let tool = CommandLineTool(beside: topology)
      let shown = try await tool.run("journal", "node", "-o", "json", code: 0)
      let records = try JSONValue(parsing: shown.output.utf8)["records"]
      guard case .array(let records)? = records else {
        Issue.record("no records")
        return
      }
      #expect(records.suffix(5).map { $0["state"] } == states)
      try await topology.stop("node")
      #expect(try Self.differenceCount(topology) == 4)
      let file = try JournalFile(of: "node", in: topology)
      let rows = try file.run("SELECT state FROM record_state ORDER BY id DESC LIMIT 5")
      #expect(try rows.reversed().map { try JSONValue(parsing: $0.utf8) } == states)
      #expect(try file.integer("SELECT sum(length(state)) FROM record") < 110_000)
      try await topology.start("node")
      try await send(.touch, &copy, topology)
    }
  }

  @Test("A state of exactly 1 MiB can change, and a step that would exceed the limit is refused")
  func limit() async throws {
    try await withTopology(Self.scroll) { topology in
      var copy = Copy()
      let overhead = #"{"holding":{"count":1,"text":""}}"#.utf8.count
      try await send(.fill(byteCount: StateSizeLimit.maximumByteCount - overhead), &copy, topology)
      for _ in 0..<5 { try await send(.touch, &copy, topology) }
      func expectRefusal() async throws {
        let refused = try await topology.send(
          "node", Scroll.Event.append(text: "x"), timeout: .seconds(60))
        guard case .refused(.stateTooLarge, _) = refused else {
          Issue.record("not refused")
          return
        }
      }
      try await expectRefusal()
      try await topology.kill("node")
      try await send(.touch, &copy, topology)
      try await expectRefusal()
      try await send(.trim(count: 1), &copy, topology)
      try await send(.append(text: "é"), &copy, topology)
      try await topology.expect("node", copy.state)
    }
  }

  @Test("A client that requests no state gets the outcome without a state, even after a crash")
  func withoutState() async throws {
    var options = TopologyHarness.Options()
    options.environment = ["PIPERUNTIME_FAILPOINTS": "node:reply.before=crash@2/1"]
    try await withTopology(Self.scroll, options: options) { topology in
      for version in 1...3 as ClosedRange<UInt64> {
        let outcome = try await topology.client.send(
          "node", Scroll.Event.fill(byteCount: 100_000), timeout: .seconds(60),
          includingState: false)
        #expect(outcome == .accepted(version: version, state: .null))
      }
      try await topology.expect(
        "node", Scroll.State.holding(count: 3, text: Scroll.text(100_000)))
    }
  }

  @Test("A damaged difference in the journal fails the node with an error that names the record")
  func damaged() async throws {
    var file = Self.scroll
    // The other node keeps the topology running.
    file.nodes.append(.machine("Button", name: "other"))
    try await withTopology(file) { topology in
      var copy = Copy()
      try await send(.fill(byteCount: 50_000), &copy, topology)
      try await send(.append(text: "x"), &copy, topology)
      try await topology.stop("node")
      try JournalFile(of: "node", in: topology).run(
        "UPDATE record SET state = '[1]' WHERE base IS NOT NULL")
      _ = try? await topology.start("node")
      let node = try await topology.expectStatus(of: "node", "its failure") { $0.phase == "failed" }
      #expect(
        node.reason?.contains("cannot be read: its difference does not fit the state of record")
          == true, "\(node.reason ?? "")")
      #expect(node.reason?.contains("orchestrator reset node") == true)
    }
  }

  @Test(
    "A request that is repeated after a crash gets the same large state",
    arguments: [20_000, 200_000])
  func repeated(byteCount: Int) async throws {
    var options = TopologyHarness.Options()
    options.environment = ["PIPERUNTIME_FAILPOINTS": "node:reply.before=crash@3/1"]
    try await withTopology(Self.scroll, options: options) { topology in
      var copy = Copy()
      try await send(.fill(byteCount: byteCount), &copy, topology)
      try await send(.append(text: "é"), &copy, topology)
      // The process ends after it has recorded this step, and before it replies.
      try await send(.prepend(text: "日"), &copy, topology)
      #expect(try await topology.status("node").incarnation == 2)
    }
  }
}
