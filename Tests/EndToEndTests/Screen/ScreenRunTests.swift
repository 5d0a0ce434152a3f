import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The screen on a terminal", .timed)
struct ScreenRunTests {
  @Test(
    "The screen shows a topology, sends an event through a form, and leaves the topology running",
    arguments: [(80, 24), (60, 16)])
  func lift(columns: Int, rows: Int) async throws {
    try await withTopology("topologies/lift.yaml") { topology in
      let terminal = try topology.screen(columns: columns, rows: rows)
      let lines = try await terminal.expect("standing(floor: 0)")
      #expect(lines[0].hasPrefix("lift: running"))
      #expect(lines.count { $0.hasPrefix("▶ door") } == 1)
      // Shows which events of the composite are blocked, and by which node.
      terminal.type("4")
      try await terminal.expect(" by door")
      terminal.type("2\r")
      try await terminal.expect("✓  open")
      try await terminal.expect("→ stopped")
      // An event that the door takes together with the motor goes to both.
      terminal.type("/open\r")
      try await terminal.expect("▶ ✓  open")
      terminal.type("\r")
      try await terminal.expect("send open to 'lift'")
      terminal.type("\r")
      try await terminal.expect("committed as")
      try await terminal.expect("✗  open")
      // Esc first shows all events again, and then goes back. A key that follows Esc at once would
      // be read as that key with Alt.
      terminal.type("\u{1B}")
      try await terminal.expect("emergencyStop")
      terminal.type("\u{1B}")
      try await terminal.expect("▶ door")
      // An event of a single component can be sent to the composite.
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
      // A key that follows Esc at once would be read as that key with Alt.
      try await terminal.expect("▶ lift")
      terminal.resize(columns: 100, rows: 30)
      try await terminal.expect("? help  q quit")
      terminal.resize(columns: 30, rows: 8)
      try await terminal.expect("o sort …")
      try await terminal.expectQuit()
      #expect(terminal.lines.joined().contains("keeps running"))
      #expect(try await topology.status("door").isRunning)
    }
  }

  @Test("A node's page follows the node's steps, even across a crash")
  func node() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let terminal = try topology.screen()
      try await terminal.expect("▶ ")
      terminal.type("/n2\r")
      try await terminal.expect("▶ n2")
      terminal.type("\r")
      try await terminal.expect("HISTORY")
      // The node reports steps once it has the subscription. Until then there are only states.
      var n = 1
      let isShown: Bool? = try await poll(every: .milliseconds(20), within: .seconds(60)) {
        if terminal.lines.contains(where: { $0.contains("--token(n: ") }) { return true }
        try await topology.client.send("n1", json: ["token": ["n": .integer(Int64(n))]])
        n += 1
        return nil
      }
      #expect(isShown == true, "\(terminal.lines.joined(separator: "\n"))")
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
      try await terminal.expect("n2: started")
      try await terminal.expect("n2  running")
      try await terminal.expectQuit()
    }
  }

  @Test("The pages of dead letters and of the graph show a running topology, and lists are sorted")
  func pages() async throws {
    try await withTopology(Visitors.topology()) { topology in
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      try await topology.expectStatus(of: "gate", "letters") { $0.status?.deadLetters == 4 }
      let terminal = try topology.screen(columns: 100, rows: 30)
      try await terminal.expect("▶ ")
      terminal.type("6")
      let lines = try await terminal.expect("▶ gate")
      #expect(lines.count { $0.contains("refused: noTransition") } == 4, "\(lines)")
      terminal.type("R")
      try await terminal.expect("refused again: noTransition")
      terminal.type("DD")
      try await terminal.expect("deleted")
      try await topology.expectStatus(of: "gate", "letters") { $0.status?.deadLetters == 3 }
      terminal.type("7")
      let drawing = try await terminal.expect("shut")
      #expect(drawing.contains { $0.contains("button") }, "\(drawing)")
      terminal.type("2o")
      try await terminal.expect("sorted by NODE, from A to Z")
      terminal.type("O")
      try await terminal.expect("NODE▼")
      try await terminal.expectQuit()
    }
  }

  @Test("The orchestrator's notes about a node appear in the logs once")
  func notes() async throws {
    // The orchestrator has a log of its own only when it is detached.
    try await DetachedTopology.with(ViewTests.constants, name: "still") { topology in
      let terminal = try PseudoTerminal(
        CommandLineTool.orchestrator, ["ui", "-p", "still"],
        environment: topology.tool.directory.environment(), columns: 120, rows: 40)
      try await terminal.expect("still: running")
      terminal.type("5")
      // A note about the whole topology comes after the notes about its nodes.
      let lines = try await terminal.expect("orchestrator still: 5 nodes running")
      for node in try await topology.directory().nodes.map(\.name) {
        #expect(lines.contains { $0.contains(" \(node) ") && $0.contains("ready") }, "\(lines)")
        #expect(!lines.contains { $0.contains("orchestrator \(node): ") }, "\(lines)")
      }
      try await terminal.expectQuit()
    }
  }

  @Test("The screen ends with a message when the topology goes down")
  func down() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let terminal = try topology.screen()
      try await terminal.expect("relay: running")
      topology.orchestrator.signal(.terminate)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      #expect(terminal.lines.joined().contains("topology 'relay' has stopped"))
      #expect(try await topology.expectEnd() == 0)
    }
  }

  @Test(
    "The screen shows that the orchestrator does not answer, and recovers when it answers again")
  func silent() async throws {
    try await withTopology("topologies/relay.yaml") { topology in
      let terminal = try topology.screen()
      try await terminal.expect("relay: running")
      topology.orchestrator.signal(.stop)
      try await terminal.expect("relay: last seen running; the orchestrator does not answer")
      topology.orchestrator.signal(.resume)
      try await terminal.expect("relay: running")
      terminal.hangUp()
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test("'ui' without a terminal fails and names alternatives")
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

  @Test("Leaving the screen of a run asks for confirmation and stops the topology")
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

  @Test(
    "A signal leaves the screen of a run and stops the topology",
    arguments: [Signal.terminate, .interrupt])
  func signalled(signal: Signal) async throws {
    try await run { terminal in
      try await terminal.expect("open(persons: 2)")
      terminal.signal(signal)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
      #expect(terminal.lines.contains("still: stopped"))
    }
  }

  @Test("A run stops gracefully when its terminal is closed")
  func closed() async throws {
    try await run { terminal in
      try await terminal.expect("open(persons: 2)")
      terminal.hangUp()
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test(
    "'run --ui' cannot be combined with other forms of output",
    arguments: ["--plain", "--lifeline"])
  func excluded(option: String) async throws {
    try await run([option]) { terminal in
      let exit = try await terminal.expectEnd()
      #expect(exit == .exited(code: 2))
      #expect(terminal.lines.joined().contains("\(UsageError.conflict("--ui", option))"))
    }
  }
}
