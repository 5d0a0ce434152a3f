import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The output of 'monitor'", .timed)
struct MonitorVerbTests {
  private static let numbers = """
    topology: numbers
    program: TestNodes
    nodes: { source: { machine: Source }, sink: { machine: Sink } }
    pipes: [{ from: source.out, to: sink.in, name: numbers }]
    """

  /// Options with which the harness itself subscribes to no states.
  private static let unwatched: TopologyHarness.Options = {
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    return options
  }()

  private static func with(
    _ body: (TopologyHarness, CommandLineTool) async throws -> Void
  ) async throws {
    try await withTopology(yaml: numbers, options: unwatched) { topology in
      try await body(topology, CommandLineTool(beside: topology))
    }
  }

  /// Returns the JSON lines that a program has written.
  private static func records(_ program: LaunchedProgram) throws -> [JSONValue] {
    try program.outputText.split(separator: "\n", omittingEmptySubsequences: true)
      .map { try JSONValue(parsing: $0.utf8) }
  }

  private static func end(_ program: LaunchedProgram) async throws {
    program.signal(.terminate)
    #expect(try await program.waitForExit(within: .seconds(10)) != nil)
  }

  @Test("'monitor' writes the latest states with the node's counters and transitions")
  func latest() async throws {
    try await Self.with { topology, tool in
      let monitor = try tool.start(["monitor", "sink", "-o", "jsonl"])
      #expect(try await monitor.waitForOutput(containing: "\n"))
      try await topology.send("source", Source.Event.go(count: 2_000))
      #expect(try await monitor.waitForOutput(containing: #""version":2000}"#))
      let records = try Self.records(monitor)
      let last = try #require(records.last)
      #expect(last["counters"]?["events"] == 2000 && last["counters"]?["refused"] == 0)
      #expect(last["transitions"] == ["since": 0, "counts": ["counting": ["number": 2000]]])
      let missed = records.compactMap { $0["missed"]?.integer }
      let versions = Set(records.compactMap { $0["version"]?.integer })
      #expect(missed.count == records.count && missed.reduce(0, +) == 2001 - Int64(versions.count))
      try await Self.end(monitor)
    }
  }

  @Test("A changed counter causes a new JSON record of 'monitor', but no new line of text")
  func counters() async throws {
    try await Self.with { topology, tool in
      let json = try tool.start(["monitor", "source", "-o", "jsonl"])
      let text = try tool.start(["monitor", "source"])
      for monitor in [json, text] { #expect(try await monitor.waitForOutput(containing: "idle")) }
      #expect(
        try await topology.client.send("source", Source.Event.next)
          == .refused(.noTransition, state: ["idle": ["sent": 0]]))
      #expect(try await json.waitForOutput(containing: #""refused":1"#))
      let last = try #require(Self.records(json).last)
      #expect(last["version"] == 0 && last["counters"]?["events"] == 1 && last["missed"] == 0)
      try await topology.send("source", Source.Event.go(count: 1))
      #expect(try await text.waitForOutput(containing: "idle(sent: 1)"))
      let idle = text.outputText.split(separator: "\n").count { $0.contains("idle(sent: 0)") }
      #expect(idle == 1, "\(text.outputText)")
      for monitor in [json, text] { try await Self.end(monitor) }
    }
  }

  @Test("A query of a node causes no line in the output of 'monitor'")
  func idle() async throws {
    try await Self.with { topology, tool in
      let monitor = try tool.start(["monitor", "sink", "-o", "jsonl"])
      #expect(try await monitor.waitForOutput(containing: "\n"))
      // Long enough for several summaries.
      let end = ContinuousClock.now + .milliseconds(500)
      repeat {
        _ = try await topology.client.directory(fresh: true)
      } while ContinuousClock.now < end
      try await topology.send("source", Source.Event.go(count: 1))
      #expect(try await monitor.waitForOutput(containing: #""version":1"#))
      let versions = try Self.records(monitor).compactMap { $0["version"]?.integer }
      #expect(versions == [0, 1])
      try await Self.end(monitor)
    }
  }

  @Test("'monitor --every' writes every state")
  func every() async throws {
    try await Self.with { topology, tool in
      let monitor = try tool.start(["monitor", "sink", "--every", "-o", "jsonl", "-n", "101"])
      #expect(try await monitor.waitForOutput(containing: "\n"))
      try await topology.send("source", Source.Event.go(count: 100))
      _ = try await tool.end(of: monitor)
      let records = try Self.records(monitor)
      #expect(records.compactMap { $0["version"]?.integer } == Array(0...100))
      #expect(records.allSatisfy { $0["counters"] == nil })
    }
  }

  /// Sends numbers one at a time until a program has written a text.
  private static func send(
    _ topology: TopologyHarness, until program: LaunchedProgram, writes text: String
  ) async throws {
    let written: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
      if program.outputText.contains(text) { return true }
      try await topology.send("source", Source.Event.go(count: 1))
      return nil
    }
    #expect(written == true, "\(program.outputText)\(program.errorText)")
  }

  @Test("'monitor --steps' writes steps, and 'monitor --tap' the events of a pipe")
  func followed() async throws {
    try await Self.with { topology, tool in
      let steps = try tool.start(["monitor", "--steps", "sink"])
      try await Self.send(topology, until: steps, writes: "--number(n: ")
      #expect(steps.outputText.contains("  (numbers "))
      try await Self.end(steps)
      let tap = try tool.start(["monitor", "--tap", "numbers", "-o", "jsonl"])
      try await Self.send(topology, until: tap, writes: #""pipe":"numbers""#)
      let record = try #require(Self.records(tap).first)
      #expect(record["node"] == "source" && record["lost"] == 0)
      let number = try #require(record["number"])
      #expect(record["event"] == ["number": ["n": number]])
      try await Self.end(tap)
    }
  }

  @Test(
    "'monitor' refuses invalid option combinations and says what to do",
    arguments: [
      (["--every", "--steps"], "\(UsageError.conflict("--every", "--steps"))"),
      (["--steps", "--tap", "numbers"], "\(UsageError.conflict("--steps", "--tap"))"),
      (["--tap", "numbers", "sink"], "\(UsageError.conflict("--tap", "NODE")); omit 'sink'"),
      (["--tap", "nmbers"], "\(TopologyClientError.unknownPipe("nmbers", known: ["numbers"]))"),
    ])
  func problems(options: [String], message: String) async throws {
    try await Self.with { _, tool in
      let result = try await tool.result(of: tool.start(["monitor"] + options))
      #expect(result.code == 2 && result.output == "", "\(result)")
      #expect(result.error.contains(message), "\(result)")
    }
  }
}
