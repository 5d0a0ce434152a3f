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

  @Test("'ps' fits 80 columns on a terminal and shows every column in a pipe")
  func processes() async throws {
    try await withTopology(yaml: ViewTests.constants) { topology in
      // Waits until all nodes have reported their states.
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

  /// Runs a topology on a separate terminal.
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

  @Test("'run' shows the screen until ^C and then prints how the run ended")
  func run() async throws {
    try await running(ViewTests.constants, columns: 100, rows: 24) { terminal in
      try await terminal.expect("showing(floor: 4, persons: 1)")
      try await terminal.expect("still: running")
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      let last = terminal.lines.filter { !$0.isEmpty }
      #expect(last.last == "still: stopped", "\(last)")
    }
  }

  @Test("'monitor' shows the screen, and ^C leaves the screen without ending the topology")
  func monitor() async throws {
    try await withTopology(yaml: ViewTests.button) { topology in
      let terminal = try orchestrator(["monitor"], of: topology)
      let lines = try await terminal.expect("pressed(times: 0)")
      #expect(lines[0].hasPrefix("button: running  up "))
      #expect(words(lines[2]).first == "NODE")
      try await topology.send("left", Button.Event.press)
      let pressed = try await terminal.expect("pressed(times: 1)")
      #expect(!pressed.joined().contains("pressed(times: 0)"))
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      let text = "topology 'button' keeps running; 'orchestrator down -p button' stops it"
      #expect(terminal.lines.joined().contains(text), "\(terminal.lines)")
      #expect(try await topology.status("left").isRunning)
    }
  }

  @Test("'monitor --timeout' leaves the screen after the timeout")
  func timeout() async throws {
    try await withTopology(yaml: ViewTests.button) { topology in
      let terminal = try orchestrator(["monitor", "--timeout", "1s"], of: topology)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      #expect(terminal.lines.joined().contains("'orchestrator down -p button'"))
    }
  }

  @Test("'monitor NODE…' shows the named nodes and refuses unknown names")
  func named() async throws {
    try await withTopology(yaml: ViewTests.constants) { topology in
      let terminal = try orchestrator(["monitor", "heated", "open"], of: topology)
      try await terminal.expect("open(persons: 2)")
      let lines = try await terminal.expect("quit")
      let names = lines.drop { words($0).first != "NODE" }.dropFirst().prefix(3)
        .map { words($0).first { $0 != "▶" } }
      #expect(names == ["heated", "open", "LOGS"], "\(lines)")
      #expect(!lines.joined().contains("display"), "\(lines)")
      terminal.type("\u{3}")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      let unknown = try orchestrator(["monitor", "opne"], of: topology)
      #expect(try await unknown.expectEnd() == .exited(code: 2))
      unknown.expectRestored()
      #expect(unknown.lines.joined().contains("'opne'"))
    }
  }

  @Test("A killed orchestrator ends the screen with a message that says what to do")
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

  @Test("'monitor --plain' first writes the current states, in file order and with local times")
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
