import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The page of a recorded run", .timed)
struct RunPageTests {
  private static let yaml = """
    topology: recorded
    program: TestNodes
    nodes:
      source: { machine: Source }
      sink: { machine: Sink, restart: { max: 1000, backoff: { initial: 10ms, max: 50ms } } }
      left: { machine: Party }
      right: { machine: Party }
    pipes:
      - { from: source.out, to: sink.in, name: numbers, capacity: 16 }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    timeouts: { start: 60s, heartbeat: 60s, stop: 60s }
    """

  /// Records a run with 20 events of the pipe, a kill of their receiver, a synchronized event, and an
  /// event that the source has refused.
  private static func record(_ body: (CommandLineTool) async throws -> Void) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(yaml, to: "recorded.yaml")
      let program = try tool.start(["record", "recorded.yaml", "--out", "run"])
      #expect(try await program.waitForOutput(containing: "5 nodes running"))
      for count in [8, 12] {
        _ = try await tool.run("send", "source", #"{"go":{"count":\#(count)}}"#, code: 0)
        if count == 8 {
          try await tool.run("wait", #"sink={"counting":{"last":8,"count":8,"wrong":0}}"#, code: 0)
          try await tool.run("kill", "sink", code: 0)
        }
      }
      try await tool.run("wait", #"sink={"counting":{"last":20,"count":20,"wrong":0}}"#, code: 0)
      _ = try await tool.run("send", "pair", "meet", code: 0)
      try await tool.run("down", code: 0)
      _ = try await program.waitForExit(within: .seconds(60))
      try await body(tool)
    }
  }

  /// Everything that a page receives about a run.
  private struct Page {
    let inspector: InspectorProgram
    let delta: JSONValue

    init(_ tool: CommandLineTool, _ run: String = "run") async throws {
      inspector = try await InspectorProgram(tool, "web", run)
      let answer = try await inspector.client.get(
        "/api/changes", headers: ["Authorization": "Bearer \(inspector.token)"])
      delta = try JSONValue(parsing: answer.body.utf8)
    }

    private func list(_ name: String) -> [JSONValue] {
      if case .array(let values)? = delta[name] { values } else { [] }
    }

    var events: [JSONValue] { list("happened") }
    var topology: JSONValue? { list("standing").first { $0["is"] == "topology" } }
    var states: [JSONValue] { list("standing").filter { $0["is"] == "state" } }

    /// The texts about the logs and the programs of the run.
    var notes: [String] {
      guard case .array(let notes)? = topology?["run"]?["notes"] else { return [] }
      return notes.compactMap { $0["text"]?.string }
    }

    func node(_ name: String) -> JSONValue? {
      guard case .array(let nodes)? = topology?["nodes"] else { return nil }
      return nodes.first { $0["name"] == .string(name) }
    }

    func ask(_ path: String, _ body: JSONValue? = nil) async throws -> WebClient.Answer {
      var headers = ["Authorization": "Bearer \(inspector.token)"]
      if body != nil { headers["Content-Type"] = "application/json" }
      return try await inspector.client.get(
        path, body == nil ? "GET" : "POST", headers: headers, body: body?.text ?? "")
    }
  }

  @Test("The page receives the nodes, steps, kills, ends and last states of a recorded run")
  func contents() async throws {
    try await Self.record { tool in
      let page = try await Page(tool)
      #expect(page.notes.isEmpty, "\(page.notes)")
      let started = try #require(page.topology?["run"]?["started"]?.integer)
      let ended = try #require(page.topology?["run"]?["ended"]?.integer)
      // The present of the page is the end of the run.
      #expect(page.delta["time"] == .integer(ended) && ended > started)
      #expect(page.delta["skipped"] == 0)
      #expect(page.node("sink")?["phase"] == "ended" && page.node("sink")?["restarts"] == 1)
      #expect(page.node("pair")?["phase"] == "not recorded")
      let sunk = page.events.filter { $0["node"] == "sink" && $0["index"] != nil }
      #expect(sunk.count == 20)
      var sent: Set<JSONValue> = []
      for event in page.events {
        if let source = event["source"] { #expect(sent.contains(source), "\(event.text)") }
        guard case .array(let events)? = event["sent"] else { continue }
        for case .object(var members) in events {
          members["event"] = nil
          sent.insert(.object(members))
        }
      }
      // The state before a step is the state after the step before it.
      for (former, step) in zip(sunk, sunk.dropFirst()) {
        #expect(step["from"] == former["state"] && step["from"] != nil, "\(step.text)")
      }
      let lives = page.events.filter { $0["is"] == "life" && $0["node"] == "sink" }
      #expect(lives.map { $0["again"] } == [true, false], "\(lives.map(\.text))")
      #expect(lives.last?["phase"] == "ended")
      // The log has the time of the graceful end.
      #expect((lives.last?["time"]?.integer ?? 0) > (sunk.last?["time"]?.integer ?? .max))
      let transactions = page.events.filter { $0["transaction"] != nil }
      #expect(Set(transactions.map { $0["node"] }) == ["left", "right"])
      #expect(Set(transactions.map { $0["transaction"] }).count == 1)
      let last = page.states.first { $0["node"] == "sink" }
      #expect(last?["state"] == ["counting": ["last": 20, "count": 20, "wrong": 0]])
      try await page.inspector.stop(tool)
    }
  }

  @Test("The page of a recorded run draws state charts, and refuses every command")
  func commands() async throws {
    try await Self.record { tool in
      let page = try await Page(tool)
      #expect(try await page.ask("/api/about").body == #"{"readOnly":true}"#)
      #expect(try await page.ask("/api/chart?node=sink").body.contains(#""transitions""#))
      for (path, body): (String, JSONValue?) in [
        ("/api/enabled?node=sink", nil), ("/api/state?node=sink", nil),
        ("/api/send", ["node": "source", "event": ["go": ["count": 1]]]),
        ("/api/control", ["node": "sink", "action": "start"]),
        ("/api/dead-letter", ["node": "sink", "id": 1, "drops": true]),
      ] {
        let answer = try await page.ask(path, body)
        #expect(answer.status == 409 && answer.body.contains("recorded run"), "\(answer)")
      }
      try await page.inspector.stop(tool)
    }
  }

  @Test(
    "The page names incomplete lines, missing steps, missing logs and other steps of the programs")
  func damagedRun() async throws {
    try await Self.record { tool in
      let directory = tool.directory.path + "/run/"
      let source = try #require(FileSystem.text(of: directory + "source.1.steps.jsonl"))
      let sink = try #require(FileSystem.text(of: directory + "sink.2.steps.jsonl"))
      // A log that was cut off in the middle of a write.
      try tool.directory.write(String(source.dropLast(30)), to: "run/source.1.steps.jsonl")
      // A line that is missing.
      var lines = sink.split(separator: "\n")
      lines.remove(at: 3)
      try tool.directory.write(lines.joined(separator: "\n") + "\n", to: "run/sink.2.steps.jsonl")
      FileSystem.removeTree(directory + "left.1.steps.jsonl")
      let page = try await Page(tool)
      let notes = page.notes
      #expect(notes.contains { $0.hasPrefix("left out as incomplete: source.1.steps.jsonl:") })
      #expect(notes.contains { $0.contains("(sink.2.steps.jsonl:4)") }, "\(notes)")
      #expect(notes.contains { $0.hasPrefix("node 'sink' first differs from the run at sink@") })
      #expect(notes.contains("node 'left' has no log"))
      #expect(page.node("source")?["phase"] == "cut off")
      #expect(page.node("left")?["phase"] == "not recorded")
      try await page.inspector.stop(tool)
    }
  }

  @Test("'web RUN' and 'ui RUN' exit with code 2 and the reason if they cannot show the run")
  func refused() async throws {
    try await Self.record { tool in
      try FileSystem.makeDirectories(tool.directory.path + "/empty")
      for (arguments, problem) in [
        (["web", "none"], "no such directory 'none'"),
        (["web", "empty"], "'empty' is not a recorded run"),
        (["web", "run", "-p", "recorded"], "\(UsageError.conflict("RUN", "--topology"))"),
        (["ui", "run"], "'orchestrator web run'"),
        (
          ["replay", "run", "--page", "--to", "sink@1"], "\(UsageError.conflict("--page", "--to"))"
        ),
      ] {
        let result = try await tool.end(of: tool.start(arguments), code: 2)
        #expect(result.error.contains(problem), "\(result)")
      }
      let log = tool.directory.path + "/run/right.1.steps.jsonl"
      try tool.directory.write(
        (FileSystem.text(of: log) ?? "") + "{}\n", to: "run/right.1.steps.jsonl")
      let result = try await tool.end(of: tool.start(["web", "run"]), code: 2)
      #expect(result.error.contains("right.1.steps.jsonl:"), "\(result)")
    }
  }
}
