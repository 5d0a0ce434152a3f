import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Recorded runs", .timed)
struct RecordedRunTests {
  private static let restart =
    "restart: { max: 1000, backoff: { initial: 10ms, max: 50ms } }"

  private static let yaml = """
    topology: recorded
    program: TestNodes
    nodes:
      source: { machine: Source, \(restart) }
      sink: { machine: Sink, \(restart) }
      left: { machine: Party, \(restart) }
      right: { machine: Party, \(restart) }
    pipes:
      - { from: source.out, to: sink.in, name: numbers, capacity: 16 }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    timeouts: { start: 60s, heartbeat: 60s, stop: 60s }
    """

  private static var options: TopologyHarness.Options {
    var options = TopologyHarness.Options()
    options.checksConformance = true
    return options
  }

  @Test("A recorded run in which each process is killed several times conforms to its topology")
  func killed() async throws {
    try await withTopology(yaml: Self.yaml, options: Self.options) { topology in
      let count = 1_500
      try await topology.send("source", Source.Event.go(count: count))
      for (round, node) in ["sink", "left", "source", "pair", "right", "sink", "left", "source"]
        .enumerated()
      {
        try await topology.expectStatus(of: "sink", "progress", within: .seconds(60)) {
          ($0.status?.version ?? 0) >= UInt64(150 * round)
        }
        _ = try await topology.meet(mode: .await(.seconds(60)))
        try await topology.kill(node)
      }
      try await topology.expect(
        "sink", Sink.State.counting(last: count, count: count, wrong: 0), within: .seconds(60))
      let last = try await topology.meet(mode: .await(.seconds(60)))
      #expect(last.isCommitted)
      // A node that is still being killed would not stop gracefully.
      try await topology.expectStatus(of: "source", "the next process") {
        $0.isRunning && $0.incarnation > 2
      }
    }
  }

  @Test(
    "A recorded run conforms after a crash before or after a journal's record, at each node",
    arguments: [
      "sink:step.after", "sink:record.after", "source:step.after", "source:record.after",
      "left:step.after", "left:record.after", "left:step.recorded", "pair:commit.before",
    ])
  func crashed(place: String) async throws {
    var options = Self.options
    options.environment = [
      FailpointCounter.rulesVariable: "\(place)=crash@2/1,\(place)=crash@3/2"
    ]
    let node = String(place.prefix { $0 != ":" })
    options.waitsUntilRunning = false
    try await withTopology(yaml: Self.yaml, options: options) { topology in
      for name in ["source", "pair"] {
        try await topology.expectStatus(of: name, "the node to run") { $0.isRunning }
      }
      try await topology.send("source", Source.Event.go(count: 200))
      for _ in 0..<10 { _ = try await topology.meet(mode: .await(.seconds(60))) }
      try await topology.expect(
        "sink", Sink.State.counting(last: 200, count: 200, wrong: 0), within: .seconds(60))
      try await topology.expectLog(node, contains: "crash")
    }
  }

  /// A recorded run whose logs a test can change.
  private struct Run {
    let tool: CommandLineTool

    func lines(_ node: String) throws -> [JSONValue] {
      let path = tool.directory.path + "/run/\(node).1.steps.jsonl"
      return try FileSystem.text(of: path)?.split(separator: "\n")
        .map { try JSONValue(parsing: $0.utf8) } ?? []
    }

    /// Changes the lines of a node, and returns the codes of the violations that `conform` finds.
    func codes(
      changing node: String, _ change: (inout [JSONValue]) throws -> Void
    ) async throws -> Set<String> {
      let former = try lines(node)
      var lines = former
      try change(&lines)
      try write(lines, node)
      let result = try await tool.run("conform", "run", "-o", "json", code: 1)
      try write(former, node)
      guard case .array(let violations)? = try JSONValue(parsing: result.output.utf8)["violations"]
      else { return [] }
      #expect(violations.allSatisfy { $0["node"] != nil && $0["version"] != nil })
      return Set(violations.compactMap { $0["code"]?.string })
    }

    private func write(_ lines: [JSONValue], _ node: String) throws {
      try tool.directory.write(
        lines.map { $0.text + "\n" }.joined(), to: "run/\(node).1.steps.jsonl")
    }
  }

  /// Records a run with 20 events of the pipe and five synchronized events.
  private static func record(_ body: (Run) async throws -> Void) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(yaml, to: "recorded.yaml")
      let program = try tool.start(["record", "recorded.yaml", "--out", "run"])
      #expect(try await program.waitForOutput(containing: "5 nodes running"))
      _ = try await tool.run("send", "source", #"{"go":{"count":20}}"#, code: 0)
      for _ in 0..<5 { _ = try await tool.run("send", "pair", "meet", code: 0) }
      try await tool.run(
        "wait", #"sink={"counting":{"last":20,"count":20,"wrong":0}}"#, code: 0)
      for node in ["left", "right"] {
        try await tool.run(
          "wait", node + #"={"willing":{"met":5,"steps":0}}"#, code: 0)
      }
      try await tool.run("down", code: 0)
      _ = try await program.waitForExit(within: .seconds(60))
      try await body(Run(tool: tool))
    }
  }

  private static func index(of step: Int, in lines: [JSONValue]) throws -> Int {
    try #require(lines.firstIndex { $0["index"] == .integer(Int64(step)) && $0["state"] != nil })
  }

  private static func setting(
    _ keys: [String], of value: JSONValue, to new: JSONValue?
  ) -> JSONValue {
    guard case .object(var members) = value, let key = keys.first else { return new ?? .null }
    members[key] =
      keys.count == 1
      ? new : setting(Array(keys.dropFirst()), of: members[key] ?? .null, to: new)
    return .object(members)
  }

  @Test(
    "'conform' finds each kind of mistake in a recorded run, and names the node and the version")
  func mistakes() async throws {
    try await Self.record { run in
      let result = try await run.tool.run("conform", "run")
      #expect(result.output.contains("20 pipe events, 5 synchronized events"), "\(result)")
      var codes = try await run.codes(changing: "sink") { lines in
        lines.remove(at: try Self.index(of: 7, in: lines))
      }
      #expect(codes.isSuperset(of: ["missing-steps", "lost-event"]))
      codes = try await run.codes(changing: "sink") { lines in
        let index = try Self.index(of: 7, in: lines)
        lines[index] = Self.setting(["source", "number"], of: lines[index], to: 6)
      }
      #expect(codes.isSuperset(of: ["repeated-event", "unknown-event", "lost-event"]))
      codes = try await run.codes(changing: "sink") { lines in
        let index = try Self.index(of: 20, in: lines)
        lines[index] = Self.setting(["state", "counting", "count"], of: lines[index], to: 21)
      }
      #expect(codes == ["other-step"])
      codes = try await run.codes(changing: "sink") { lines in
        let index = try Self.index(of: 5, in: lines)
        lines[index] = Self.setting(["state", "counting", "wrong"], of: lines[index], to: 1)
      }
      #expect(codes == ["other-state", "other-step"])
      codes = try await run.codes(changing: "source") { lines in
        let index = try #require(lines.firstIndex { $0["sent"] != nil && $0["sent"] != .array([]) })
        lines[index] = Self.setting(["sent"], of: lines[index], to: .array([]))
      }
      #expect(codes.isSuperset(of: ["other-events", "unknown-event"]))
      codes = try await run.codes(changing: "right") { lines in
        lines.remove(at: try Self.index(of: 5, in: lines))
      }
      #expect(codes == ["torn-transaction"])
      codes = try await run.codes(changing: "right") { lines in
        let (first, second) = try (Self.index(of: 2, in: lines), Self.index(of: 4, in: lines))
        let transactions = (lines[first]["transaction"], lines[second]["transaction"])
        lines[first] = Self.setting(["transaction"], of: lines[first], to: transactions.1)
        lines[second] = Self.setting(["transaction"], of: lines[second], to: transactions.0)
      }
      #expect(codes == ["contradictory-order"])
    }
  }

  @Test(
    "A run conforms even if one node's log was cut off and synchronized events are incomplete")
  func cutOff() async throws {
    try await Self.record { run in
      let path = run.tool.directory.path + "/run/right.1.steps.jsonl"
      let text = try #require(FileSystem.text(of: path))
      try run.tool.directory.write(
        String(text.dropLast(text.count / 3)), to: "run/right.1.steps.jsonl")
      try await run.tool.run("conform", "run", code: 0)
    }
  }

  @Test("'record' and 'conform' refuse directories and files of another run with exit code 2")
  func refused() async throws {
    try await Self.record { run in
      let tool = run.tool
      try FileSystem.makeDirectories(tool.directory.path + "/other")
      try tool.directory.write("x", to: "other/file")
      for (arguments, problem) in [
        (["record", "recorded.yaml"], "--out"),
        (["record", "recorded.yaml", "--out", "other"], "'other' is not empty"),
        (["conform", "none"], "no such directory 'none'"),
        (["conform", "other"], "'other' is not a recorded run"),
      ] {
        let result = try await tool.end(of: tool.start(arguments), code: 2)
        #expect(result.error.contains(problem), "\(result)")
      }
      try tool.directory.write(Self.yaml + "# changed\n", to: "recorded.yaml")
      for arguments in [["conform", "run"], ["record", "recorded.yaml", "--out", "run"]] {
        let result = try await tool.end(of: tool.start(arguments), code: 2)
        #expect(result.error.contains("recorded.yaml") || result.error.contains("another version"))
      }
      try tool.directory.write(Self.yaml, to: "recorded.yaml")
      let log = tool.directory.path + "/run/right.1.steps.jsonl"
      try tool.directory.write(
        (FileSystem.text(of: log) ?? "") + "{}\n", to: "run/right.1.steps.jsonl")
      let result = try await tool.run("conform", "run", code: 2)
      #expect(result.error.contains("right.1.steps.jsonl:"), "\(result)")
    }
  }
}
