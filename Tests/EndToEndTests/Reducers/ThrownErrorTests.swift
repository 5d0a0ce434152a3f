import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A reducer that throws", .timed)
struct ThrownErrorTests {
  private static let turners = """
    topology: turners
    program: TestNodes
    nodes:
      left: { machine: Turner, parameters: { spins: false } }
      right: { machine: Turner, parameters: { spins: false } }
      alone: { machine: Turner, parameters: { spins: false } }
      third: { machine: Turner, parameters: { spins: false } }
      selfish: { machine: Turner, parameters: { fails: true } }
      button: { machine: Button }
    pipes:
      - { from: button, when: pressed, to: left, send: fail }
    composites:
      pair: { components: [left, right], synchronize: { turn: [left, right] } }
      other: { components: [right, third], synchronize: { fail: [right, third] } }
    """
  private static let thrown = Refusal.thrown("it will not fail")

  @Test("If a reducer throws for an event, the event is refused and its sender gets the error")
  func sent() async throws {
    try await withTopology(yaml: Self.turners) { topology in
      let outcome = try await topology.send("left", Turner.Event.fail)
      #expect(outcome == .refused(Self.thrown, state: ["turns": ["count": 0]]))
      try await topology.expectStatus(of: "left", "no step") { $0.status?.version == 0 }
      let tool = CommandLineTool(beside: topology)
      let text = try await tool.run("send", "left", "fail", code: 1)
      #expect(text.error.contains(Self.thrown.wording), "\(text)")
      let json = try await tool.run("send", "left", "fail", "-o", "json")
      let record = try JSONValue(parsing: Array(json.output.utf8))
      #expect(record["reason"] == "thrown" && record["error"] == "it will not fail", "\(json)")
      let why = try await tool.run("why", "left", "fail", code: 4)
      #expect(why.output.contains("the machine's function throws: it will not fail"), "\(why)")
    }
  }

  @Test(
    "If a reducer throws for a pipe's event, the event becomes a dead letter with a logged error")
  func piped() async throws {
    try await withTopology(yaml: Self.turners) { topology in
      try await topology.expectStatus(of: "left", "a letter") { $0.status?.deadLetters == 1 }
      let deadLetters = try await topology.client.deadLetters(of: "left")
      #expect(deadLetters.map(\.reason) == ["refused: thrown: it will not fail"])
      try await topology.expectLog("left", contains: "refused: thrown: it will not fail")
    }
  }

  @Test("If a reducer throws for a pressed key's event, the view's status line shows the error")
  func shown() async throws {
    try await withTopology(yaml: Self.turners) { topology in
      let terminal = try PseudoTerminal(
        CommandLineTool.products + "/TestNodes",
        ["view", "TurnerView", "alone", "-p", topology.topology],
        environment: topology.directory.environment(), columns: 80, rows: 4)
      try await terminal.expect("turned 0 times")
      terminal.type("f")
      try await terminal.expect("refused: fail, \(Self.thrown.wording)")
      terminal.type("t")
      try await terminal.expect("turned 1 times")
      #expect(!terminal.lines.joined().contains("refused"))
      terminal.type("q")
      #expect(try await terminal.expectEnd() == .exited(code: 0))
    }
  }

  @Test("If a reducer throws for a feedback's event, the log has the event and the error")
  func own() async throws {
    try await withTopology(yaml: Self.turners) { topology in
      try await topology.send("selfish", Turner.Event.turn)
      try await topology.expectLog(
        "selfish",
        contains: "event 'fail' was refused, since the machine's function threw: it will not fail")
      try await topology.expectStatus(of: "selfish", "one step") { $0.status?.version == 1 }
    }
  }

  @Test(
    "If a participant throws for a synchronized event, the refusal names the participant")
  func synchronized() async throws {
    try await withTopology(yaml: Self.turners) { topology in
      let reply = try await topology.client.synchronize("other", Turner.Event.fail)
      guard case .refused(let withheld) = reply else {
        Issue.record("\(reply)")
        return
      }
      #expect(!withheld.isEmpty && withheld.allSatisfy { $0.reason == Self.thrown }, "\(reply)")
      #expect(withheld.allSatisfy { $0.state == ["turns": ["count": 0]] }, "\(reply)")
      let tool = CommandLineTool(beside: topology)
      let text = try await tool.run("send", "other", "fail", code: 1)
      #expect(
        text.error.contains(
          "is in (turns: [count: 0]): \(Self.thrown.wording)"),
        "\(text)")
      #expect(try await topology.client.synchronize("pair", Turner.Event.turn).isCommitted)
    }
  }
}
