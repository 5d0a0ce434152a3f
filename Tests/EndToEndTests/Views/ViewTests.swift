import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestNodes
import TestTraits
import Testing

@Suite("Views on a terminal", .timed)
struct ViewTests {
  static let constants = """
    topology: still
    program: nodes
    nodes:
      open: { machine: ElevatorDoor, constant: { open: { persons: 2 } } }
      closing: { machine: ElevatorDoor, constant: { closing: { persons: 3 } } }
      closed: { machine: ElevatorDoor, constant: closed }
      heated: { machine: WashingMachine, constant: waterHeated }
      display: { machine: FloorDisplay, constant: { showing: { floor: 4, persons: 1 } } }
    """
  static let button = """
    topology: button
    program: TestNodes
    nodes:
      left: { machine: Button, restart: { backoff: { initial: 20ms } } }
    """

  @Test("A view shows a state on a separate screen, and 'q' restores the terminal")
  func shows() async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let terminal = try topology.view("DoorView", "closing")
      let lines = try await terminal.expect("3 inside")
      #expect(
        lines == [
          "┌────────────┐", "│███      ███│", "│███      ███│  The door is closing",
          "│███      ███│  3 inside", "└────────────┘", "", "1-9 enter, c closes, o opens", "", "",
          "", "", "", "", "closing" + String(repeating: " ", count: 46) + "q quits",
        ])
      // A constant node accepts no events, and the status line says so.
      terminal.type("o")
      try await terminal.expect("a constant node accepts")
      try await terminal.expectQuit()
      #expect(terminal.lines.allSatisfy { $0 == "" })
    }
  }

  @Test("A view of a state is printed without a topology")
  func state() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    func view(_ arguments: String...) async throws -> CommandLineTool.Result {
      try await tool.result(
        of: tool.start(
          program: CommandLineTool.products + "/nodes", ["view", "DoorView"] + arguments))
    }
    let closing = try await view("--state", #"{"closing":{"persons":3}}"#)
    #expect(closing.code == 0)
    #expect(closing.output.hasPrefix("┌────────────┐\n│███      ███│\n"), "\(closing)")
    #expect(closing.output.contains("│███      ███│  3 inside\n"), "\(closing)")
    #expect(try await view("--state", "closed").output.contains("The door is closed"))
    let unknown = try await view("--state", "ajar")
    #expect(unknown.code == 2 && unknown.output.isEmpty)
    #expect(unknown.error.contains("is not a value of"), "\(unknown)")
    let both = try await view("door", "--state", "closed")
    #expect(both.code == 2)
    #expect(both.error.contains("cannot be used together with NODE"), "\(both)")
    let neither = try await view()
    #expect(neither.code == 2)
    #expect(neither.error.contains("requires NODE"), "\(neither)")
  }

  @Test("A quiz can be played in a terminal, from its first question to the results")
  func quiz() async throws {
    try await withTopology("topologies/quiz.yaml") { topology in
      let terminal = try topology.view("QuizView", "quiz")
      try await terminal.expect("No quiz selected")
      try await topology.send("quizes", QuizesList.Event.onAppear)
      try await topology.expect("quizes", "the list") { (state: QuizesList.State) in
        if case .loaded = state { true } else { false }
      }
      try await topology.send("quizes", QuizesList.Event.onQuizSelect(2))
      try await terminal.expect("Question 1 of 2")
      terminal.type("2")
      try await terminal.expect("Question 2 of 2")
      // After a kill in the middle, the quiz continues with the same question.
      try await topology.kill("quiz")
      try await topology.expectStatus(of: "quiz", "its second start") {
        $0.isRunning && $0.incarnation == 2
      }
      terminal.type("1")
      try await terminal.expect("r shows the results")
      terminal.type("r")
      try await terminal.expect("1 of 2 answers are right")
      try await terminal.expectQuit()
    }
  }

  @Test("Keys become events of the current state, and refused events are shown")
  func keys() async throws {
    let yaml = """
      topology: keys
      program: nodes
      nodes:
        washer: { machine: WashingMachine, parameters: { unit: 600000 } }
        door: { machine: ElevatorDoor, parameters: { closingTime: 600000 } }
      """
    try await withTopology(yaml: yaml) { topology in
      let washer = try topology.view("WasherView", "washer")
      try await washer.expect("▶ cold and empty")
      washer.type("s")
      try await washer.expect("▶ full with hot water")
      washer.type("s")
      try await washer.expect("refused: start, the state")
      let door = try topology.view("DoorView", "door")
      try await door.expect("The door is open")
      // All keys are typed at once, followed by the two parts of an arrow key that has no meaning
      // in this view.
      door.type("123\u{1B}")
      door.type("[Ac")
      try await door.expect("The door is closing")
      #expect(door.lines.contains { $0.contains("6 inside") })
      try await door.expectQuit(by: "\u{3}")
    }
  }

  @Test("A hundred keys send a hundred events, as long as the node keeps up")
  func manyKeys() async throws {
    try await withTopology(yaml: Self.button) { topology in
      let terminal = try topology.view("ButtonView", "left", program: "TestNodes")
      try await terminal.expect("pressed 0 times")
      for tens in 1...10 {
        terminal.type(String(repeating: " ", count: 10))
        try await terminal.expect("pressed \(10 * tens) times")
      }
      try await topology.expectStatus(of: "left", "100 steps") { $0.status?.version == 100 }
    }
  }

  @Test("A terminal that is too small shows the required size until it is enlarged")
  func resized() async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let terminal = try topology.view("DoorView", "open", columns: 20, rows: 5)
      try await terminal.expect("needs 36×8")
      #expect(!terminal.lines.contains { $0.contains("│") })
      terminal.resize(columns: 40, rows: 9)
      try await terminal.expect("The door is open")
      #expect(terminal.lines.count == 9)
      #expect(terminal.lines.last?.hasSuffix("q quits") == true)
      terminal.resize(columns: 30, rows: 5)
      try await terminal.expect("has 30×5")
      #expect(!terminal.lines.contains { $0.contains("│") })
    }
  }

  @Test(
    "A view exits 0 on SIGTERM and SIGINT and restores the terminal",
    arguments: [Signal.terminate, .interrupt])
  func signals(signal: Signal) async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let terminal = try topology.view("WasherView", "heated")
      try await terminal.expect("▶ water heated")
      terminal.signal(signal)
      #expect(try await terminal.expectEnd() == .exited(code: 0))
      terminal.expectRestored()
    }
  }

  @Test("A view ends at once when its terminal is closed")
  func closed() async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let terminal = try topology.view("DisplayView", "display")
      try await terminal.expect("1 person")
      terminal.hangUp()
      #expect(try await terminal.expectEnd() == .exited(code: 1))
      #expect(!topology.directory.processes.contains { $0.command.contains(" view ") })
    }
  }

  @Test("A view waits for a crashed node, and ends with the reason when the node is stopped")
  func nodeDown() async throws {
    try await withTopology(yaml: Self.button) { topology in
      let terminal = try topology.view("ButtonView", "left", program: "TestNodes")
      try await terminal.expect("pressed 0 times")
      try await topology.kill("left")
      terminal.type("  ")
      try await terminal.expect("pressed 2 times")
      try await topology.stop("left")
      #expect(try await terminal.expectEnd() == .exited(code: 1))
      terminal.expectRestored()
      let lines = terminal.lines.joined()
      #expect(lines.contains("TestNodes: node 'left' is no longer running"), "\(lines)")
    }
  }

  @Test("A view ends with a message that says what to do when its orchestrator is killed")
  func orchestratorKilled() async throws {
    try await DetachedTopology.with(Self.button, name: "button") { topology in
      let terminal = try PseudoTerminal(
        CommandLineTool.products + "/TestNodes", ["view", "ButtonView", "left"],
        environment: topology.tool.directory.environment(), columns: 200)
      try await terminal.expect("pressed 0 times")
      try await topology.killOrchestrator()
      #expect(try await terminal.expectEnd() == .exited(code: 1))
      terminal.expectRestored()
      #expect(
        terminal.lines.joined().contains("topology 'button' has gone down")
          || terminal.lines.joined().contains("'orchestrator up"), "\(terminal.lines)")
    }
  }

  @Test("A view ends when its topology stops")
  func topologyDown() async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let terminal = try topology.view("DisplayView", "display")
      try await terminal.expect("1 person")
      topology.orchestrator.signal(.terminate)
      #expect(try await terminal.expectEnd() == .exited(code: 1))
      terminal.expectRestored()
      #expect(terminal.lines.joined().contains("topology 'still'"), "\(terminal.lines)")
      #expect(try await topology.expectEnd() == 0)
    }
  }

  @Test("A view that crashes also restores the terminal")
  func crash() async throws {
    try await withTopology(yaml: Self.button) { topology in
      let terminal = try topology.view(
        "FragileView", "left", program: "TestNodes",
        environment: ["SWIFT_BACKTRACE": "enable=no"])
      try await terminal.expect("not pressed")
      terminal.type("x")
      guard case .signalled? = try await terminal.expectEnd() else {
        Issue.record("it should have crashed")
        return
      }
      terminal.expectRestored()
      try await topology.expectStatus(of: "left", "one step") { $0.status?.version == 1 }
    }
  }

  @Test("Without a terminal a view prints plain lines, and every state with '--every'")
  func plain() async throws {
    try await withTopology(yaml: Self.button) { topology in
      let tool = CommandLineTool(beside: topology)
      let program = CommandLineTool.products + "/TestNodes"
      let printed = try tool.start(
        program: program, ["view", "ButtonView", "left", "--every", "-n", "3"])
      #expect(try await printed.waitForOutput(containing: "pressed 0 times\n"))
      for _ in 1...2 { try await topology.send("left", Button.Event.press) }
      let result = try await tool.end(of: printed)
      #expect(result.output == "pressed 0 times\n\npressed 1 times\n\npressed 2 times\n")
      let following = try tool.start(program: program, ["view", "ButtonView", "left"])
      #expect(try await following.waitForOutput(containing: "pressed 2 times\n"))
      following.signal(.terminate)
      #expect(try await tool.result(of: following).code == 0)
    }
  }

  @Test(
    "Each state of a constant node is printed by its view",
    arguments: [
      ("DoorView", "open", "The door is open"), ("DoorView", "closed", "│██████████████│"),
      ("WasherView", "heated", "▶ water heated"), ("DisplayView", "display", "1 person"),
    ])
  func constants(view: String, node: String, text: String) async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let tool = CommandLineTool(beside: topology)
      let printed = try tool.start(
        program: CommandLineTool.products + "/nodes", ["view", view, node, "-n", "1"])
      let result = try await tool.end(of: printed)
      #expect(result.error == "")
      if node == "closed" {
        #expect(result.output.contains("The door is closed"), "\(result)")
      } else {
        #expect(result.output.contains(text), "\(result)")
      }
    }
  }

  @Test(
    "A view that cannot be shown causes an error that says what to do",
    arguments: [
      (["Door", "open"], 2, "this program has no view 'Door'; it has 'DoorView'"),
      (["DoorView", "opne"], 2, Suggestion.hint("open")),
      (["DoorView"], 2, "'view' requires NODE"),
      (
        ["DoorView", "open", "-n", "0"], 2,
        "invalid value '0' for -n: "
      ),
      (["DoorView", "open", "--tpology", "x"], 2, Suggestion.hint("--topology")),
      (["DoorView", "heated"], 2, "view 'DoorView' cannot show node 'heated'"),
      (["DoorView", "open", "-p", "nowhere"], 3, "topology 'nowhere' "),
    ] as [([String], Int32, String)])
  func problems(arguments: [String], code: Int32, message: String) async throws {
    try await withTopology(yaml: Self.constants) { topology in
      let tool = CommandLineTool(beside: topology)
      let printed = try tool.start(
        program: CommandLineTool.products + "/nodes", ["view"] + arguments)
      let result = try await tool.result(of: printed)
      #expect(result.code == code, "\(result)")
      #expect(result.output == "")
      #expect(result.error.contains(message), "\(result)")
    }
  }
}
