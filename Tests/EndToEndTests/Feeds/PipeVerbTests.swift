import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing
import orchestrator

@Suite("The verb 'pipe'", .timed)
struct PipeVerbTests {
  private static let numbers = """
    topology: numbers
    program: TestNodes
    nodes: { source: { machine: Source }, sink: { machine: Sink } }
    pipes: [{ from: source.out, to: sink.in, name: numbers, capacity: 64 }]
    """

  private static func with(
    _ body: (TopologyHarness, CommandLineTool) async throws -> Void
  ) async throws {
    try await withTopology(yaml: numbers) { topology in
      try await body(topology, CommandLineTool(beside: topology))
    }
  }

  private static func records(_ text: String) throws -> [JSONValue] {
    try text.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
  }

  @Test("'pipe ls' and 'pipe info' show the exact counters of a pipe, by name or number")
  func counters() async throws {
    try await Self.with { topology, tool in
      try await topology.send("source", Source.Event.go(count: 500))
      try await topology.expect(
        "sink", Sink.State.counting(last: 500, count: 500, wrong: 0))
      // The last acknowledgments reach the sender a moment later, and the status of a busy node may
      // be old.
      let known = try await poll(within: .seconds(10)) { () -> JSONValue? in
        let listed = try await tool.run("pipe", "ls", "-o", "jsonl")
        let pipe = try Self.records(listed.output).first
        return pipe?["underWay"] == 0 && pipe?["sent"] == 500 && pipe?["applied"] == 500
          ? pipe : nil
      }
      let pipe = try #require(known)
      #expect(pipe["pipe"] == "numbers" && pipe["number"] == 1 && pipe["capacity"] == 64)
      #expect(pipe["sent"] == 500 && pipe["received"] == 500 && pipe["applied"] == 500)
      #expect(pipe["full"] == false && pipe["stallReason"] == .null && pipe["lost"] == 0)
      let table = try await tool.run("pipe", "ls")
      #expect(
        table.output.split(separator: "\n").last == "1  numbers   500      500          0        64"
      )
      for word in ["numbers", "1"] {
        let page = try await tool.run("pipe", "info", word)
        #expect(page.output.contains("500 sent, 500 acknowledged as applied"), "\(page)")
        #expect(page.output.contains("500 received, 500 applied, 0 waiting"), "\(page)")
        #expect(page.output.contains("number(n: Int)"), "\(page)")
      }
      #expect(try await tool.run("pipe", "ls", "-q").output == "numbers\n")
    }
  }

  @Test("The rates that 'pipe hz' shows add up to the number of events sent")
  func rate() async throws {
    try await Self.with { topology, tool in
      let program = try tool.start(["pipe", "hz", "--every", "100ms", "-o", "jsonl"])
      #expect(try await program.waitForOutput(containing: "\n"))
      try await topology.send("source", Source.Event.go(count: 3_000))
      #expect(try await program.waitForOutput(containing: #""sent":3000,"#))
      program.signal(.terminate)
      #expect(try await program.waitForExit(within: .seconds(10)) != nil)
      let records = try Self.records(program.outputText)
      let still: [JSONValue] = [.null, .number(0)]
      let rates = records.compactMap { (record: JSONValue) in record["sentPerSecond"] }
      #expect(rates.contains { !still.contains($0) }, "\(records)")
      let underWay = records.compactMap { (record: JSONValue) in record["underWay"]?.integer }
      #expect(underWay.max().map { $0 <= 64 } == true)
    }
  }

  @Test("'pipe hz' reports no rate across a restart of the sender or the receiver")
  func restarted() throws {
    func reading(_ sent: UInt64, at time: Int64, incarnation: UInt64) -> PipeSnapshot {
      var status = NodeStatus()
      status.time = time
      status.outs = [.init(name: "p", events: sent, applied: 0, waiting: 0, capacity: 8)]
      var sender = NodeInformation(
        name: "a", kind: .machine, hosts: nil, program: "", phase: "running", isRunning: true,
        inbox: "", feed: "")
      sender.status = status
      sender.incarnation = incarnation
      return PipeSnapshot(
        PipeInformation(name: "p", from: "a", to: "b", capacity: 8), positionInFile: 1,
        sender: sender,
        receiver: nil)
    }
    let first = reading(100, at: 1_000_000_000, incarnation: 1)
    let later = PipeRate(from: first, to: reading(350, at: 1_500_000_000, incarnation: 1))
    #expect(later.sendRate == 500 && later.applyRate == nil)
    #expect(later.line(nameWidth: 1, Style(isColored: false)).hasPrefix("p      500.0 sent/s"))
    #expect(
      PipeRate(from: first, to: reading(350, at: 1_500_000_000, incarnation: 2)).sendRate == nil)
    #expect(PipeRate(from: first, to: first).sendRate == nil)
    #expect(reading(1, at: 1, incarnation: 1).stallReason == "receiver unknown")
  }

  @Test(
    "'pipe echo' shows a pipe's events, and 'pipe send' prints the receiver's answer to an event")
  func events() async throws {
    try await Self.with { topology, tool in
      let echo = try tool.start(["pipe", "echo", "1", "-n", "3", "-o", "jsonl"])
      // Events sent before the subscription reaches the node are not reported.
      while echo.exit == nil {
        try await topology.send("source", Source.Event.go(count: 1))
      }
      #expect(try await echo.waitForExit(within: .seconds(10)) == .exited(code: 0))
      let numbers = try Self.records(echo.outputText).compactMap { $0["number"]?.integer }
      #expect(numbers.count == 3 && numbers == (0..<3).map { numbers[0] + $0 })
      let events = try Self.records(echo.outputText).compactMap { $0["event"] }
      #expect(events == numbers.map { ["number": ["n": .integer($0)]] })
      let sent = try await tool.run("pipe", "send", "numbers", #"{"number":{"n":4}}"#)
      #expect(sent.code == 0 && sent.output.contains(#""last":4,"#), "\(sent)")
      let wrong = try await tool.run("pipe", "send", "1", "nope")
      #expect(wrong.code == 2 && wrong.error.contains("'nope'"))
    }
  }
}
