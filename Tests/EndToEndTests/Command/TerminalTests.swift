import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing
import orchestrator

@Suite("The command on a terminal", .timed)
struct TerminalTests {
  private func orchestrator(
    _ arguments: [String], of topology: TopologyHarness, columns: Int = 80, rows: Int = 24,
    zone: String = "UTC"
  ) throws -> PseudoTerminal {
    try PseudoTerminal(
      CommandLineTool.orchestrator, arguments + ["-p", topology.topology],
      environment: topology.directory.environment(adding: ["TZ": zone]), columns: columns,
      rows: rows)
  }

  private func words(_ line: String) -> [Substring] { line.split(separator: " ") }

  @Test("'ps' fits 80 columns without a wrapped line, and shows every column in a pipe")
  func processes() async throws {
    try await withTopology(yaml: ViewTests.constants) { topology in
      // All have told their states.
      _ = try await topology.directory()
      let terminal = try orchestrator(["ps"], of: topology)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      let lines = terminal.lines.filter { !$0.isEmpty }
      #expect(words(lines[0]) == ["NODE", "STATUS", "UPTIME", "EVENTS", "VERSION", "STATE"])
      let names = lines.dropFirst().map { words($0).first }
      #expect(names == ["open", "closing", "closed", "heated", "display"])
      #expect(lines.last?.hasSuffix("  showing(floor: 4, persons: 1)") == true)
      let piped = try await CommandLineTool(beside: topology).run("ps", "-p", topology.topology)
      let heading = try #require(piped.output.split(separator: "\n").first)
      for column in ["PID", "RESTARTS", "CPU", "MEMORY", "DURABILITY"] {
        #expect(heading.contains(column))
      }
    }
  }

  /// Runs a topology on a terminal of its own.
  private func running(
    _ yaml: String, columns: Int, rows: Int, _ body: (PseudoTerminal) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(yaml, to: "topology.yaml")
      let terminal = try PseudoTerminal(
        CommandLineTool.orchestrator, ["run", tool.directory.path + "/topology.yaml"],
        environment: tool.directory.environment(), columns: columns, rows: rows)
      try await body(terminal)
    }
  }

  @Test("the live view of 'run' shows whole states on 60 columns, and ends with how it ended")
  func narrow() async throws {
    try await running(ViewTests.constants, columns: 60, rows: 15) { terminal in
      let lines = try await terminal.expect("  showing(floor: 4, persons: 1)")
      let heading = lines.filter { $0.hasPrefix("NODE") }.joined()
      #expect(heading.contains("STATE"))
      #expect(!heading.contains("PID") && !heading.contains("RESTARTS"))
      try await terminal.expect("5 nodes running")
      try await terminal.expect("^C stops in order, a second ^C kills")
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      let last = terminal.lines.filter { !$0.isEmpty }
      #expect(last.last == "still: stopped", "\(last)")
      #expect(!last.joined().contains("^C stops"))
    }
  }

  @Test("a terminal that is not high enough is told how many nodes are not shown")
  func low() async throws {
    let nodes = (1...20).map { "  n\($0): { constant: idle }" }
    let yaml = "topology: many\nprogram: nodes\nnodes:\n" + nodes.joined(separator: "\n")
    try await running(yaml, columns: 60, rows: 15) { terminal in
      // Beside these rows there are the title, the headings, this mark, the footer and the cursor.
      try await terminal.expect("… 10 more")
      let lines = try await terminal.expect("20 nodes running")
      let rows = lines.filter { $0.hasPrefix("n") }
      #expect(rows.count == 10)
      terminal.resize(columns: 60, rows: 30)
      let whole = try await terminal.expect("n20")
      #expect(!whole.joined().contains(" more"))
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test("'monitor' is a live view; ^C leaves it, and the topology goes on")
  func monitor() async throws {
    try await withTopology(yaml: ViewTests.button) { topology in
      let terminal = try orchestrator(["monitor"], of: topology)
      let lines = try await terminal.expect("pressed(times: 0)")
      #expect(lines[0].hasPrefix("button: running  up "))
      #expect(words(lines[1]).first == "NODE")
      try await topology.send("left", Button.Event.press)
      let pressed = try await terminal.expect("pressed(times: 1)")
      #expect(!pressed.joined().contains("pressed(times: 0)"))
      terminal.resize(columns: 40, rows: 10)
      try await terminal.expect("NODE  STATUS   EVENTS  STATE")
      terminal.resize(columns: 80, rows: 24)
      try await terminal.expect("RESTARTS")
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      let last = terminal.lines.filter { !$0.isEmpty }.last
      #expect(last == "topology 'button' goes on; 'orchestrator down -p button' stops it")
      #expect(try await topology.status("left").isRunning)
    }
  }

  @Test("the live view says where the orchestrator does not answer, and goes on when it does")
  func silent() async throws {
    try await withTopology(yaml: ViewTests.button) { topology in
      let terminal = try orchestrator(["monitor"], of: topology)
      try await terminal.expect("button: running")
      topology.orchestrator.signal(.stop)
      try await terminal.expect("button: its orchestrator does not answer; last seen running")
      topology.orchestrator.signal(Signal.resume)
      try await terminal.expect("button: running")
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test("the live view shows the nodes that are named, and an unknown one is an error")
  func named() async throws {
    try await withTopology(yaml: ViewTests.constants) { topology in
      let terminal = try orchestrator(["monitor", "heated", "open"], of: topology)
      try await terminal.expect("open(persons: 2)")
      // What a frame ends with.
      let lines = try await terminal.expect("^C leaves the view")
      let names = lines[2...4].map { words($0).first }
      #expect(names == ["heated", "open", "^C"])
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      let unknown = try orchestrator(["monitor", "opne"], of: topology)
      #expect(try await unknown.expectEnd() == .exited(code: 2))
      unknown.expectRestored()
      #expect(unknown.lines.joined().contains("there is no node 'opne'"))
    }
  }

  @Test("the live view ends when the topology goes down, and says so")
  func down() async throws {
    try await withTopology(yaml: ViewTests.button) { topology in
      let terminal = try orchestrator(["monitor"], of: topology)
      try await terminal.expect("pressed(times: 0)")
      topology.orchestrator.signal(.terminate)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      let last = terminal.lines.filter { !$0.isEmpty }.last
      #expect(last == "topology 'button' has gone down")
      #expect(try await topology.expectEnd() == 0)
    }
  }

  @Test("an orchestrator that is killed ends the live view, with what to do")
  func orchestratorKilled() async throws {
    try await DetachedTopology.with(ViewTests.button, name: "button") { topology in
      let terminal = try PseudoTerminal(
        CommandLineTool.orchestrator, ["monitor"],
        environment: topology.tool.directory.environment(), columns: 200)
      try await terminal.expect("pressed(times: 0)")
      try await topology.killOrchestrator()
      #expect(try await terminal.expectEnd() == .exited(code: 3))
      terminal.expectRestored()
      #expect(terminal.lines.joined().contains("'orchestrator up"), "\(terminal.lines)")
    }
  }

  @Test("'monitor --plain' writes lines: first the states in the file's order, with local times")
  func plain() async throws {
    try await withTopology(yaml: ViewTests.constants) { topology in
      let tool = CommandLineTool(beside: topology)
      let piped = try await tool.run(
        "monitor", "-p", topology.topology, "-o", "jsonl", "-n", "5")
      let records = try piped.output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
      let names = records.compactMap { $0["node"]?.string }
      #expect(names == ["open", "closing", "closed", "heated", "display"])
      let terminal = try orchestrator(
        ["monitor", "--plain", "-n", "5"], of: topology, zone: "Asia/Tokyo")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      let shown = terminal.lines.prefix(5).map { $0.prefix(31) }
      let expected = try records.map { record in
        let text = try #require(record["time"]?.string)
        let time = try #require(Timestamp(text))
        let there = Timestamp(milliseconds: time.milliseconds + 9 * 3_600_000).description
        let node = try #require(record["node"]?.string)
        return "\(there.prefix(10)) \(there.dropFirst(11).dropLast()) \(node.padded(to: 7))"
      }
      #expect(shown.map { String($0) } == expected)
    }
  }
}
