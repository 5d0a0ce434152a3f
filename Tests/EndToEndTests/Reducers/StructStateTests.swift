import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes whose state is a struct", .timed)
struct StructStateTests {
  private static func turner(
    spins: Bool, durability: Durability = .volatile
  ) -> Topology {
    Topology(
      name: "turner", program: "TestNodes",
      nodes: [
        .machine(
          "Turner", name: "turner", parameters: ["spins": .bool(spins)],
          restart: RestartPolicy(backoff: Backoff(initial: .milliseconds(1))),
          durability: durability)
      ])
  }

  @Test("Every verb shows a struct of one field as a struct, and 'wait' compares the field")
  func verbs() async throws {
    try await withTopology(Self.turner(spins: false)) { topology in
      let tool = CommandLineTool(beside: topology)
      func expect(
        _ arguments: String..., code: Int32 = 0, output: String = "", error: String = ""
      ) async throws {
        let result = try await tool.result(of: tool.start(arguments))
        #expect(result.code == code, "\(arguments): \(result)")
        #expect(output.isEmpty || result.output.contains(output), "\(arguments): \(result)")
        #expect(result.error.contains(error) || error.isEmpty, "\(arguments): \(result)")
      }
      try await expect("describe", output: "\n  state         turns: Turns\n")
      try await expect("describe", output: "\n  initial       (turns: [count: 0])\n")
      try await expect(
        "send", "turner", "turn", output: #"turner: {"turns":{"count":1}}  (version 1)"# + "\n")
      try await expect(
        "send", "turner", "fail", code: 1,
        error:
          #"'turner' refused fail in {"turns":{"count":1}}: "#
          + Refusal.thrown("it will not fail").wording)
      // A node that is too busy to answer is listed with its last known state.
      try await topology.expectStatus(of: "turner", "version 1") { $0.status?.version == 1 }
      try await expect("ps", output: "(turns: [count: 1])")
      try await expect("monitor", "-n", "1", output: "turner  (turns: [count: 1])  (request)")
      try await expect(
        "wait", #"turner={"turns":{"count":1}}"#,
        output: "turner: (turns: [count: 1])  (version 1)\n")
      try await expect(
        "wait", #"turner={"turns":{"count":2}}"#, "--timeout", "2s", code: 124,
        error: "'turner' is in (turns: [count: 1]), not in (turns: [count: 2])")
      try await expect(
        "wait", "turner=turns", code: 2,
        error: #"'{"turns":"#)
      try await expect(
        "wait", #"turner={"turn":1}"#, code: 2,
        error: "node 'turner' has no field 'turn'")
    }
  }

  @Test("A feedback that endlessly restarts itself is held back and logged")
  func held() async throws {
    try await withTopology(Self.turner(spins: true)) { topology in
      try await topology.send("turner", Turner.Event.turn)
      try await topology.expectLog(
        "turner", contains: " is held ", within: .seconds(60))
      let limit = UInt64(Feedback<Turner.State, Turner.Event>.startLimit)
      let held = try await topology.expectStatus(of: "turner", "no effect") {
        $0.status?.effects == 0 && ($0.status?.version ?? 0) >= limit
      }
      let version = try #require(held.status?.version)
      // An event from outside lets the feedback continue.
      try await topology.send("turner", Turner.Event.turn)
      try await topology.expectStatus(of: "turner", "further turns") {
        ($0.status?.version ?? 0) > version + 1
      }
    }
  }

  @Test(
    "A feedback that was held back when its node was killed is tried again and held back again",
    .enabled(if: RecordedNodes.arePossible))
  func heldAndKilled() async throws {
    try await withTopology(Self.turner(spins: true, durability: .process)) { topology in
      let limit = UInt64(Feedback<Turner.State, Turner.Event>.startLimit)
      func held(start: UInt64, after version: UInt64) async throws -> UInt64 {
        let status = try await topology.expectStatus(
          of: "turner", "held after start \(start)", within: .seconds(60)
        ) {
          $0.incarnation == start && $0.status?.effects == 0
            && ($0.status?.version ?? 0) >= version + limit
        }
        return try #require(status.status?.version)
      }
      try await topology.send("turner", Turner.Event.turn)
      var version = try await held(start: 1, after: 0)
      try await topology.kill("turner")
      version = try await held(start: 2, after: version)
      let tool = CommandLineTool(beside: topology)
      let logs = try await tool.run("logs", "turner")
      let heldLineCount = logs.output.split(separator: "\n").count {
        $0.contains(" is held ")
      }
      #expect(heldLineCount == 2, "\(logs)")
      // An event from outside lets the feedback continue, as before.
      try await topology.send("turner", Turner.Event.turn)
      _ = try await held(start: 2, after: version)
    }
  }

  @Test(
    "A struct of one field is not treated as a case in journals, dead letters and replies",
    .enabled(if: RecordedNodes.arePossible))
  func recorded() async throws {
    var turners = Self.turner(spins: false, durability: .process)
    turners.nodes.append(.machine("Button", name: "button"))
    turners.pipes.append(.rule(from: "button", when: "pressed", to: "turner", send: "fail"))
    try await withTopology(turners) { topology in
      let tool = CommandLineTool(beside: topology)
      func expect(
        _ arguments: String..., code: Int32 = 0, output: String = "", error: String = ""
      ) async throws {
        let result = try await tool.result(of: tool.start(arguments))
        #expect(result.code == code, "\(arguments): \(result)")
        #expect(output.isEmpty || result.output.contains(output), "\(arguments): \(result)")
        #expect(error.isEmpty || result.error.contains(error), "\(arguments): \(result)")
      }
      // The button sends an event on entry into its initial state, too.
      try await topology.send("turner", Turner.Event.turn)
      try await topology.send("button", Button.Event.press)
      try await topology.expectStatus(of: "turner", "two letters") { $0.status?.deadLetters == 2 }
      try await expect(
        "journal", "turner", output: "  state         (turns: [count: 1])  (version 1)")
      try await expect("journal", "turner", output: "(turns: [count: 0])\n")
      try await expect("why", "turner", output: "turner  machine  (turns: [count: 1])  (version 1)")
      try await expect("why", "turner", "turn", output: "  (turns: [count: 1])  ")
      try await expect(
        "dead-letters", "turner", "resend", "2", code: 1,
        error: "refused dead letter 2 again in (turns: [count: 1]): "
          + Refusal.thrown("it will not fail").wording
      )
      try await topology.stop("turner")
      try await expect(
        "journal", "turner", output: "  state         (turns: [count: 1])  (version 1)")
      try await expect(
        "reset", "turner", output: "turner: deleted version 1 in state (turns: [count: 1])")
    }
  }

  @Test(
    "'check' accepts a struct as a constant, and rejects a pipe rule that names a struct's field")
  func checked() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let text = """
      topology: t
      program: TestNodes
      nodes:
        still: { constant: { turns: { count: 3 } }, machine: Turner }
        turner: { machine: Turner }
        gate: { machine: Gate }

      """
    try tool.directory.write(text, to: "good.yaml")
    let good = try await tool.run("check", "good.yaml", code: 0)
    #expect(good.error == "", "\(good)")
    try tool.directory.write(
      text + "pipes: [{ from: turner, when: turns, to: gate, send: pass }]\n", to: "bad.yaml")
    let bad = try await tool.run("check", "bad.yaml", code: 2)
    #expect(
      bad.error.contains(
        "machine 'Turner' of node 'turner' has no state 'turns'; its state is a struct: send the "
          + "event to an out-port in the code of the machine"), "\(bad)")
  }
}
