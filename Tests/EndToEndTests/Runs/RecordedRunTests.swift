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
      #expect(
        violations.allSatisfy { violation in
          violation["node"] == .string(node) || violation["code"] == "unknown-event"
            || violation["code"] == "torn-transaction" || violation["code"] == "contradictory-order"
        })
      #expect(violations.allSatisfy { ($0["line"]?.integer ?? 0) > 0 && $0["file"] != nil })
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
    try #require(lines.firstIndex { $0["step"] == .integer(Int64(step)) })
  }

  private static func setting(
    _ key: String, of value: JSONValue, to new: JSONValue?
  ) -> JSONValue {
    guard case .object(var members) = value else { return value }
    members[key] = new
    return .object(members)
  }

  /// Returns a line whose event has another number in its pipe.
  private static func renumbering(_ line: JSONValue, to number: Int) -> JSONValue {
    guard case .array(var source)? = line["source"] else { return line }
    source[2] = .integer(Int64(number))
    return setting("source", of: line, to: .array(source))
  }

  @Test(
    "'conform' finds each kind of mistake in a recorded run, and names the node and the line")
  func mistakes() async throws {
    try await Self.record { run in
      let result = try await run.tool.run("conform", "run")
      #expect(result.output.contains("20 pipe events, 5 synchronized events"), "\(result)")
      var codes = try await run.codes(changing: "sink") { lines in
        lines.remove(at: try Self.index(of: 7, in: lines))
      }
      #expect(codes.isSuperset(of: ["missing-steps", "lost-event"]))
      codes = try await run.codes(changing: "sink") { lines in
        lines.swapAt(try Self.index(of: 7, in: lines), try Self.index(of: 9, in: lines))
      }
      #expect(codes.isSuperset(of: ["missing-steps", "other-step"]))
      codes = try await run.codes(changing: "sink") { lines in
        let index = try Self.index(of: 7, in: lines)
        lines[index] = Self.renumbering(lines[index], to: 6)
      }
      #expect(codes.isSuperset(of: ["repeated-event", "unknown-event", "lost-event"]))
      codes = try await run.codes(changing: "sink") { lines in
        let index = try Self.index(of: 7, in: lines)
        lines[index] = Self.setting("event", of: lines[index], to: ["number": ["n": 70]])
      }
      #expect(codes.isSuperset(of: ["other-step", "unknown-event"]))
      for step in [5, 20] {
        codes = try await run.codes(changing: "sink") { lines in
          let index = try Self.index(of: step, in: lines)
          lines[index] = Self.setting("hash", of: lines[index], to: "0123456789abcdef")
        }
        #expect(codes == ["other-step"])
      }
      codes = try await run.codes(changing: "source") { lines in
        let index = try #require(lines.firstIndex { $0["sent"] != nil })
        lines[index] = Self.setting("sent", of: lines[index], to: nil)
      }
      #expect(codes.isSuperset(of: ["other-events", "unknown-event"]))
      codes = try await run.codes(changing: "right") { lines in
        lines.remove(at: try Self.index(of: 5, in: lines))
      }
      #expect(codes == ["torn-transaction"])
      codes = try await run.codes(changing: "right") { lines in
        let (first, second) = try (Self.index(of: 2, in: lines), Self.index(of: 4, in: lines))
        let transactions = (lines[first]["transaction"], lines[second]["transaction"])
        lines[first] = Self.setting("transaction", of: lines[first], to: transactions.1)
        lines[second] = Self.setting("transaction", of: lines[second], to: transactions.0)
      }
      #expect(codes == ["contradictory-order"])
    }
  }

  @Test("'conform' names a missing log if other nodes have consumed events of the log's node")
  func missingLog() async throws {
    try await Self.record { run in
      for (node, other) in [("source", "sink"), ("left", "right")] {
        let path = "run/\(node).1.steps.jsonl"
        let text = try #require(FileSystem.text(of: run.tool.directory.path + "/" + path))
        FileSystem.removeTree(run.tool.directory.path + "/" + path)
        let result = try await run.tool.run("conform", "run", code: 1)
        #expect(result.error.contains("\(other)@"), "\(result)")
        #expect(result.error.contains("no log of node '\(node)'"), "\(result)")
        #expect(result.error.contains("[missing-log]"), "\(result)")
        try run.tool.directory.write(text, to: path)
      }
      try await run.tool.run("conform", "run", code: 0)
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
      let result = try await run.tool.run("conform", "run", code: 0)
      let torn = text.dropLast(text.count / 3).count { $0 == "\n" } + 1
      #expect(
        result.output.contains("left out as incomplete: right.1.steps.jsonl:\(torn)"), "\(result)")
    }
  }

  @Test("'record' and 'conform' exit with code 2 if a directory or file belongs to another run")
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
      for verb in ["conform", "replay"] {
        let result = try await tool.run(verb, "run", code: 2)
        #expect(result.error.contains("right.1.steps.jsonl:"), "\(result)")
      }
      let file = tool.directory.path + "/run/run.json"
      let description = try JSONValue(parsing: (FileSystem.text(of: file) ?? "").utf8)
      try tool.directory.write(
        Self.setting("version", of: description, to: 1).text, to: "run/run.json")
      let result = try await tool.run("conform", "run", code: 2)
      #expect(result.error.contains("format 1"), "\(result)")
    }
  }

  // MARK: Replay

  @Test("'replay' shows the states of all nodes after a step, at a state, and at a time")
  func replayedPlaces() async throws {
    try await Self.record { run in
      let tool = run.tool
      for place in [
        ["--to", "sink@7"], ["--break", #"sink={"counting":{"count":7,"last":7,"wrong":0}}"#],
      ] {
        let result = try await tool.end(
          of: tool.start(["replay", "run", "-o", "json"] + place), code: 0)
        let record = try JSONValue(parsing: result.output.utf8)
        #expect(record["node"] == "sink" && record["version"] == 7, "\(result)")
        let states = try #require(record["states"])
        #expect(
          states["sink"] == [
            "version": 7, "state": ["counting": ["last": 7, "count": 7, "wrong": 0]],
          ])
        // The events were sent before.
        #expect((states["source"]?["version"]?.integer ?? 0) >= 7)
      }
      let text = try await tool.run("replay", "run", "--until", "1h", code: 0)
      #expect(text.output.contains("(version 20)"), "\(text)")
      for (arguments, problem, code) in [
        (["--to", "sink@700"], "sink@700", Int32(1)), (["--to", "sink"], "NODE@VERSION", 2),
        (["--to", "none@1"], "no node 'none'", 2),
        (["--break", "sink=waiting"], "sink=waiting", 1),
        (["--to", "sink@1", "--until", "1s"], "only one", 2),
      ] {
        let result = try await tool.end(of: tool.start(["replay", "run"] + arguments), code: code)
        #expect(result.error.contains(problem), "\(result)")
      }
    }
  }

  @Test("'replay -o jsonl' writes each step after the steps that have sent its event")
  func replayedOrder() async throws {
    try await Self.record { run in
      // A clock that was set back: the events are consumed an hour before they are sent.
      var lines = try run.lines("sink")
      let time = try #require(lines[0]["time"]?.integer)
      lines[0] = Self.setting("time", of: lines[0], to: .integer(time - 3_600_000_000_000))
      try run.tool.directory.write(
        lines.map { $0.text + "\n" }.joined(), to: "run/sink.1.steps.jsonl")
      let result = try await run.tool.run("replay", "run", "-o", "jsonl", code: 0)
      var sent: Set<JSONValue> = []
      var counts: [String: Int] = [:]
      for line in result.output.split(separator: "\n") {
        let step = try JSONValue(parsing: line.utf8)
        #expect(step["state"] != nil || step["begins"] != nil)
        if step["state"] != nil { counts[step["node"]?.string ?? "", default: 0] += 1 }
        if let source = step["source"] { #expect(sent.contains(source), "\(step.text)") }
        guard case .array(let events)? = step["sent"] else { continue }
        for event in events { sent.insert(Self.setting("event", of: event, to: nil)) }
      }
      #expect(counts["sink"] == 20 && counts["left"] == 5 && counts["right"] == 5, "\(counts)")
    }
  }

  @Test("'replay' says where the programs first take another step than the run")
  func replayedDifference() async throws {
    try await Self.record { run in
      var lines = try run.lines("sink")
      let index = try Self.index(of: 12, in: lines)
      lines[index] = Self.setting("hash", of: lines[index], to: "0123456789abcdef")
      try run.tool.directory.write(
        lines.map { $0.text + "\n" }.joined(), to: "run/sink.1.steps.jsonl")
      let result = try await run.tool.run("replay", "run", "--to", "left@1", code: 0)
      #expect(
        result.error.contains(
          "first differs from the run at sink@12 (sink.1.steps.jsonl:\(index + 1))"), "\(result)")
    }
  }
}
