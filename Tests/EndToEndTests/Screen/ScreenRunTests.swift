import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The screen, on a terminal", .timed)
struct ScreenRunTests {
  @Test(
    "shows a topology, sends it an event by a form, and leaves it as it goes on",
    arguments: [(80, 24), (60, 16)])
  func lift(columns: Int, rows: Int) async throws {
    try await withTopology("topologies/lift.yaml") { topology in
      let terminal = try topology.screen(columns: columns, rows: rows)
      let lines = try await terminal.expect("standing(floor: 0)")
      #expect(lines[0].hasPrefix("lift: running"))
      #expect(lines.count { $0.hasPrefix("▶ door") } == 1)
      // What the composite withholds, and by whom.
      terminal.type("4")
      try await terminal.expect(" by door")
      terminal.type("2\r")
      try await terminal.expect("✓  open")
      try await terminal.expect("→ stopped")
      // What the door takes with the motor goes to both.
      terminal.type("/open\r")
      try await terminal.expect("▶ ✓  open")
      terminal.type("\r")
      try await terminal.expect("send open to 'lift'")
      terminal.type("\r")
      try await terminal.expect("committed as")
      try await terminal.expect("✗  open")
      // Esc shows all events again, and then goes back. What follows it at once would be a key with Alt.
      terminal.type("\u{1B}")
      try await terminal.expect("emergencyStop")
      terminal.type("\u{1B}")
      try await terminal.expect("▶ door")
      // What one of a composite takes by itself can be sent to the composite.
      terminal.type("4s")
      let events = try await terminal.expect("▶ emergencyStop")
      #expect(events.contains("  close"), "\(events)")
      terminal.type("Gk\r")
      try await terminal.expect("door: closed  (version 2)")
      terminal.type("s")
      try await terminal.expect("▶ emergencyStop")
      terminal.type("\r")
      try await terminal.expect("committed as")
      try await terminal.expect("stopped(flo")
      #expect(try await topology.status("door").status?.state == "stopped")
      terminal.type("w")
      let why = try await terminal.expect("why lift")
      #expect(why.contains { $0.contains("ENABLED") })
      terminal.type("\u{1B}")
      // A key that follows ESC at once would be one with Alt.
      try await terminal.expect("▶ lift")
      terminal.resize(columns: 100, rows: 30)
      try await terminal.expect("? help  q quit")
      terminal.resize(columns: 30, rows: 8)
      try await terminal.expect("Tab nex…")
      try await terminal.expectQuit()
      #expect(terminal.lines.joined().contains("goes on"))
      #expect(try await topology.status("door").isRunning)
    }
  }

  @Test("what a node's page shows goes on with its steps, also over its death")
  func node() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let terminal = try topology.screen()
      try await terminal.expect("▶ ")
      terminal.type("/n2\r")
      try await terminal.expect("▶ n2")
      terminal.type("\r")
      try await terminal.expect("HISTORY")
      // Steps are followed from when the node has heard of it: until then there are only states.
      var n = 1
      let told: Bool? = try await poll(every: .milliseconds(20), within: .seconds(60)) {
        if terminal.lines.contains(where: { $0.contains("--token(n: ") }) { return true }
        try await topology.client.send("n1", json: ["token": ["n": .integer(Int64(n))]])
        n += 1
        return nil
      }
      #expect(told == true, "\(terminal.lines.joined(separator: "\n"))")
      terminal.type("K")
      try await terminal.expect("kill 'n2'? Its restart policy applies")
      terminal.type("K")
      try await terminal.expect("n2: killed")
      try await terminal.expect("restarts 1")
      terminal.type("S")
      try await terminal.expect("stop 'n2'?")
      terminal.type("y")
      try await terminal.expect("n2: stopped")
      try await terminal.expect("n2  stopped")
      terminal.type("uu")
      try await terminal.expect("n2: runs")
      try await terminal.expect("n2  running")
      try await terminal.expectQuit()
    }
  }

  @Test("what the orchestrator notes of a node stands among the logs once")
  func notes() async throws {
    // Only in the background the orchestrator has a log of its own.
    try await DetachedTopology.with(ViewTests.constants, name: "still") { topology in
      let terminal = try PseudoTerminal(
        CommandLineTool.orchestrator, ["ui", "-p", "still"],
        environment: topology.tool.directory.environment(), columns: 120, rows: 40)
      try await terminal.expect("still: running")
      terminal.type("5")
      // Of the topology as a whole, behind what it has noted of all nodes.
      let lines = try await terminal.expect("orchestrator still: 5 nodes running")
      for node in try await topology.directory().nodes.map(\.name) {
        #expect(lines.contains { $0.contains(" \(node) ") && $0.contains("ready") }, "\(lines)")
        #expect(!lines.contains { $0.contains("orchestrator \(node): ") }, "\(lines)")
      }
      try await terminal.expectQuit()
    }
  }

  @Test("ends when the topology goes down, and says so")
  func down() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let terminal = try topology.screen()
      try await terminal.expect("relay: running")
      topology.orchestrator.signal(.terminate)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      #expect(terminal.lines.joined().contains("topology 'relay' has gone down"))
      #expect(try await topology.expectEnd() == 0)
    }
  }

  @Test("says where the orchestrator does not answer, and goes on when it does")
  func silent() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let terminal = try topology.screen()
      try await terminal.expect("relay: running")
      topology.orchestrator.signal(.stop)
      try await terminal.expect("relay: last seen running; its orchestrator does not answer")
      topology.orchestrator.signal(.resume)
      try await terminal.expect("relay: running")
      terminal.hangUp()
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test("needs a terminal, and says what does not")
  func plain() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let tool = CommandLineTool(beside: topology)
      let ui = try await tool.run("ui", "-p", topology.topology)
      #expect(ui.code == 2 && ui.output.isEmpty && ui.error.contains("'orchestrator monitor'"))
    }
  }

  // MARK: run --ui

  private func run(
    _ arguments: [String] = [], _ body: (PseudoTerminal) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(ViewTests.constants, to: "topology.yaml")
      let terminal = try PseudoTerminal(
        CommandLineTool.orchestrator,
        ["run", "--ui", tool.directory.path + "/topology.yaml"] + arguments,
        environment: tool.directory.environment(), columns: 80, rows: 24)
      try await body(terminal)
    }
  }

  @Test("of a run ends the topology with it, which is asked first")
  func quit() async throws {
    try await run { terminal in
      try await terminal.expect("open(persons: 2)")
      terminal.type("q")
      try await terminal.expect("Stop the topology and leave?")
      terminal.type("n")
      try await terminal.expect("? help")
      terminal.type("qq")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      let last = terminal.lines.filter { !$0.isEmpty }
      #expect(last.last == "still: stopped", "\(last)")
    }
  }

  @Test("of a run is left by a signal, too", arguments: [Signal.terminate, .interrupt])
  func signalled(signal: Signal) async throws {
    try await run { terminal in
      try await terminal.expect("open(persons: 2)")
      terminal.signal(signal)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      #expect(terminal.lines.contains("still: stopped"))
    }
  }

  @Test("of a run that is closed with its terminal stops in order")
  func closed() async throws {
    try await run { terminal in
      try await terminal.expect("open(persons: 2)")
      terminal.hangUp()
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test("of a run goes with no other way to show it", arguments: ["--plain", "--lifeline"])
  func excluded(option: String) async throws {
    try await run([option]) { terminal in
      let exit = try await terminal.expectEnd()
      #expect(exit == .exited(code: 2))
      #expect(terminal.lines.joined().contains("--ui and \(option) exclude each other"))
    }
  }
}
