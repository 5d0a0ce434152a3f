import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The verb 'dead-letters'", .timed)
struct DeadLetterCommandTests {
  /// Makes the gate refuse four visitors.
  private func refuse(_ topology: TopologyHarness) async throws {
    for _ in 1...3 { try await topology.send("button", Button.Event.press) }
    try await topology.expectStatus(of: "gate", "letters") { $0.status?.deadLetters == 4 }
  }

  /// Returns the dead letters' numbers, as the command lists them.
  private func listed(_ tool: CommandLineTool, lost: Int = 0) async throws -> [Int64] {
    let result = try await tool.run(
      "dead-letters", "gate", "-o", "json", within: .seconds(60), code: 0)
    let note = lost > 0 ? "\(lost) refused events " : ""
    #expect(lost > 0 ? result.error.hasPrefix(note) : result.error.isEmpty, "\(result.error)")
    guard case .array(let deadLetters) = try JSONValue(parsing: result.output.utf8) else {
      return []
    }
    return deadLetters.compactMap { $0["id"]?.integer }
  }

  @Test("'dead-letters' shows dead letters of running nodes, stopped nodes and stopped topologies")
  func list() async throws {
    let tool = try await withTopology(Visitors.topology()) { topology in
      try await refuse(topology)
      let tool = CommandLineTool(beside: topology)
      let text = try await tool.run("dead-letters", "gate", "list")
      let former = try await tool.run("letters", "gate", "list")
      #expect(former.output == text.output)
      let lines = text.output.split(separator: "\n")
      #expect(lines.count == 5, "\(text)")
      #expect(lines.first?.hasPrefix("ID  TIME") == true, "\(text)")
      #expect(
        lines.last?.contains("visitors       4  pass   refused: noTransition") == true, "\(text)")
      let shown = try await tool.run("dead-letters", "gate", "show", "3")
      for part in [
        "number  3", "pipe    visitors, number 3", "event   \"pass\"",
        "reason  refused: noTransition", "state   {\"shut\":{\"passed\":0}}  (version 0)",
      ] {
        #expect(shown.output.contains(part), "\(shown)")
      }
      let missing = try await tool.run("dead-letters", "gate", "show", "9", code: 2)
      #expect(missing.error == "orchestrator: error: node 'gate' has no dead letter 9\n")
      #expect(try await listed(tool) == [1, 2, 3, 4])

      try await topology.stop("gate")
      #expect(try await listed(tool) == [1, 2, 3, 4])
      for action in ["resend", "drop"] {
        let result = try await tool.run("dead-letters", "gate", action, "1", code: 1)
        #expect(result.reports(TopologyClientError.nodeDown("gate", "stopped")), "\(result)")
        #expect(result.error.contains("'orchestrator start gate'"), "\(result)")
      }
      topology.orchestrator.signal(.terminate)
      #expect(try await topology.expectEnd() == 0)
      #expect(try await listed(tool) == [1, 2, 3, 4])
      try await tool.run("dead-letters", "gate", "resend", "--all", code: 3)
      return tool
    }
    #expect(!FileSystem.exists(tool.directory.path))
  }

  @Test(
    "A resent dead letter is removed if its event is accepted, and kept if its event is refused")
  func resend() async throws {
    try await withTopology(Visitors.topology()) { topology in
      try await refuse(topology)
      let tool = CommandLineTool(beside: topology)
      let refused = try await tool.run("dead-letters", "gate", "resend", "2", "3", code: 1)
      #expect(refused.output == "")
      #expect(
        refused.error == """
          orchestrator: error: node 'gate' refused dead letter 2 again in shut(passed: 0): \
          \(Refusal.noTransition.wording); the dead letter is kept
          orchestrator: error: node 'gate' refused dead letter 3 again in shut(passed: 0): \
          \(Refusal.noTransition.wording); the dead letter is kept

          """)
      #expect(try await listed(tool) == [1, 2, 3, 4])

      try await topology.send("gate", Gate.Event.open)
      let taken = try await tool.run("dead-letters", "gate", "resend", "2", code: 0)
      #expect(taken.output == "gate: dead letter 2 accepted: open(passed: 1)  (version 2)\n")
      #expect(try await listed(tool) == [1, 3, 4])
      let again = try await tool.run("dead-letters", "gate", "resend", "2", code: 2)
      #expect(
        again.reports(
          TopologyClientError.invalidEvent("gate", DeadLetter.unknownMessage(id: 2))), "\(again)")

      let dropped = try await tool.run("dead-letters", "gate", "drop", "3", "-o", "jsonl", code: 0)
      #expect(dropped.output == "{\"deadLetter\":3,\"node\":\"gate\",\"outcome\":\"done\"}\n")
      // The results survive the process, and no number is reused.
      try await topology.kill("gate")
      try await topology.expect("gate", Gate.State.open(passed: 1))
      #expect(try await listed(tool) == [1, 4])
      try await tool.run("dead-letters", "gate", "resend", "--all", code: 0)
      try await topology.expect("gate", Gate.State.open(passed: 3))
      #expect(try await listed(tool) == [])
      try await topology.kill("gate")
      try await topology.expect("gate", Gate.State.open(passed: 3))
      try await topology.send("gate", Gate.Event.shut)
      try await topology.send("button", Button.Event.press)
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      #expect(try await listed(tool) == [5])
      let none = try await tool.run("dead-letters", "button", "drop", "--all", code: 0)
      #expect(none.error == "node 'button' has no dead letters\n")
    }
  }

  @Test("A node without a journal reports its dead letters while it runs")
  func volatile() async throws {
    try await withTopology(Visitors.topology(durability: Durability.volatile)) { topology in
      for _ in 1...6 { try await topology.send("button", Button.Event.press) }
      try await topology.expectStatus(of: "gate", "letters") { $0.status?.deadLetters == 7 }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("dead-letters", "gate", "-o", "jsonl")
      #expect(result.output.split(separator: "\n").count == 5, "\(result)")
      #expect(
        result.error
          == "showing the last 5 of 7 dead letters; a node without a journal keeps no more\n",
        "\(result)")
      try await topology.send("gate", Gate.Event.open)
      #expect(
        try await topology.client.resend(deadLetter: 7, of: "gate")
          == .accepted(version: 2, state: ["open": ["passed": 1]]))
      try await topology.client.drop(deadLetter: 1, of: "gate")
      // Dead letters are part of the node's status, which may be older for a busy node.
      var left: [UInt64] = []
      _ = try await poll(within: .seconds(10)) {
        left = try await topology.client.deadLetters(of: "gate").map(\.id)
        return left == [2, 3, 4, 5, 6] ? true : nil
      }
      #expect(left == [2, 3, 4, 5, 6])
      try await topology.stop("gate")
      let stopped = try await tool.run("dead-letters", "gate", code: 1)
      #expect(stopped.error.contains("the node has no journal with its dead letters"), "\(stopped)")
      let journal = try await tool.run("journal", "gate", code: 1)
      let path = try JournalFile(of: "gate", in: topology).path
      #expect(journal.reports(JournalError.missing(path: path, node: "gate")), "\(journal)")
    }
  }

  @Test(
    "A resent dead letter that kills the node stays a dead letter and is not retried automatically")
  func deadly() async throws {
    let yaml = """
      topology: deadly
      program: TestNodes
      nodes:
        button: { machine: Button }
        patient:
          machine: Fragile
          restart: { max: 20, backoff: { initial: 10ms, max: 20ms } }
      pipes:
        - { from: button, when: pressed, to: patient, send: trap, name: traps }
      """
    try await withTopology(yaml: yaml, options: .crashing("patient")) { topology in
      // The start of the button sent the event, which became a dead letter after three crashes.
      try await topology.expectStatus(of: "patient", "a parked event") {
        $0.status?.deadLetters == 1
      }
      let before = try await topology.status("patient").incarnation
      let result = try await CommandLineTool(beside: topology).run(
        "dead-letters", "patient", "resend", "1")
      #expect(result.code == 1, "\(result)")
      #expect(
        result.reports(TopologyClientError.unknownOutcome("patient", after: nil)), "\(result)")
      let after = try await topology.expectStatus(of: "patient", "a new process") {
        $0.isRunning && $0.incarnation > before
      }
      #expect(after.incarnation == before + 1)
      #expect(try await topology.client.deadLetters(of: "patient").map(\.id) == [1])
    }
  }

  @Test(
    "If 'dead-letters' has wrong arguments, the error names the correct arguments",
    arguments: [
      (["gate", "sned"], "invalid value 'sned' for "),
      (["gate", "show"], "'show' requires the ID of a dead letter"),
      (["gate", "list", "1"], "'list' takes no ID"),
      (["gate", "drop"], "'drop' requires the IDs of dead letters, or --all"),
      (["gate", "resend", "1", "--all"], "'resend' requires "),
      (["gate", "--all"], "--all is only for 'resend' and 'drop'"),
      (["gate", "show", "x"], "invalid value 'x' for ID"),
      ([], "NODE is missing"),
    ] as [([String], String)])
  func usage(arguments: [String], error: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.result(of: tool.start(["dead-letters"] + arguments))
    #expect(result.code == 2, "\(result)")
    #expect(result.error.contains(error), "\(result)")
  }

  @Test("A node keeps its oldest dead letters up to a limit, and counts and logs the rest")
  func limit() async throws {
    let limit = JournalRetention().deadLetters
    let over = 50
    var topology = Visitors.topology()
    topology.nodes.append(.machine("Source", name: "source"))
    topology.pipes.append(
      .rule(from: "source", when: "sending", to: "gate", send: "pass", name: "crowd"))
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    try await withTopology(topology, options: options) { topology in
      // One event is refused from the button, which enters its first state at its start.
      try await topology.send("source", Source.Event.go(count: limit - 1 + over))
      func expectLost(_ lost: Int, _ description: String) async throws {
        try await topology.expectStatus(of: "gate", description) {
          $0.status?.deadLetters == UInt64(limit) && $0.status?.deadLettersLost == UInt64(lost)
        }
      }
      try await expectLost(over, "the limit, and what is over it")
      #expect(try await topology.status("gate").status?.refused == UInt64(limit + over))
      let loss = "the limit of \(limit) dead letters is reached ("
      try await topology.expectLog("gate", contains: loss + "1 ")
      // Losses are logged at decreasing rates: the first three, then 4, 8, 16 and 32.
      #expect(topology.logs("gate").count { $0.contains(loss) } == 7)

      let tool = CommandLineTool(beside: topology)
      #expect(try await listed(tool, lost: over) == Array(1...Int64(limit)))
      let page = try await tool.run("describe", "gate")
      let lossText = "\(limit), and \(over) lost because the limit is reached"
      #expect(page.output.contains(lossText), "\(page)")
      let status = try await tool.run("status", "gate", "-o", "json")
      #expect(status.output.contains("\"deadLettersLost\":\(over),"), "\(status)")

      // The next process knows the count, and a dropped dead letter frees capacity.
      try await topology.restart("gate")
      try await expectLost(over, "the same after a restart")
      try await tool.run("dead-letters", "gate", "drop", "2", code: 0)
      try await topology.send("button", Button.Event.press)
      try await expectLost(over, "as many again")
      try await topology.send("button", Button.Event.press)
      try await expectLost(over + 1, "one more over it")
      let journal = try await tool.run("journal", "gate", "-n", "0")
      #expect(journal.output.contains("\(limit), and \(over + 1) lost; "), "\(journal)")
      let left = try await listed(tool, lost: over + 1)
      #expect(left == [1] + Array(3...Int64(limit + 1)))
    }
  }
}
