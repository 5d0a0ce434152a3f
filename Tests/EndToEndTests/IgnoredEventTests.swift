import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Pipes that ignore refused events", .timed)
struct IgnoredEventTests {
  @Test("A pipe with 'on_refused: ignore' drops and counts refused events, even across kills")
  func dropped() async throws {
    try await withTopology(Visitors.topology(.ignore)) { topology in
      func expectIgnored(_ count: UInt64, received: UInt64) async throws {
        try await topology.expectStatus(of: "gate", "\(count) ignored events") {
          let pipe = $0.status?.ins.first
          return pipe?.ignored == count && pipe?.applied == received
        }
      }
      // The gate is shut, and the button has sent an event on its entry into the initial state.
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      try await expectIgnored(4, received: 4)
      try await topology.send("gate", Gate.Event.open)
      try await topology.send("button", Button.Event.press)
      try await topology.expect("gate", Gate.State.open(passed: 1))
      try await topology.send("gate", Gate.Event.shut)
      try await topology.kill("gate")
      try await topology.send("button", Button.Event.press)
      // Events that were ignored before are not sent again.
      try await expectIgnored(1, received: 6)
      try await topology.expect("gate", Gate.State.shut(passed: 1))
      let status = try await topology.status("gate").status
      #expect(status?.deadLetters == 0 && status?.version == 3)
      let described = try await CommandLineTool(beside: topology).run("describe", "gate", code: 0)
      #expect(described.output.contains(", 1 refused and ignored"), "\(described)")
    }
  }

  @Test("With 'on_refused: ignore', an event still becomes a dead letter if the machine throws")
  func thrown() async throws {
    let topology = Topology(
      name: "turner", program: "TestNodes",
      nodes: [.machine("Button", name: "button"), .machine("Turner", name: "turner")],
      pipes: [
        .rule(
          from: "button", when: "pressed", to: "turner", send: "fail", onRefused: .ignore)
      ])
    try await withTopology(topology) { topology in
      try await topology.expectStatus(of: "turner", "a dead letter") {
        $0.status?.deadLetters == 1 && $0.status?.ins.first?.ignored == 0
      }
    }
  }

  @Test("'check --explore' reports the refused events of a pipe only without 'on_refused: ignore'")
  func explored() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    for (policy, code) in [(PipeSpecification.OnRefused.record, Int32(1)), (.ignore, 0)] {
      var topology = Visitors.topology(policy)
      // A shorter chain of states: the button is pressed once.
      topology.explore = nil
      let text =
        topology.yaml
          + """
          explore:
            from_outside: { gate: [open, shut] }
            fold: { gate: { passed: 2 }, button: { times: 2 } }

          """
      let file = try tool.directory.write(text, to: "visitors.yaml")
      let result = try await tool.run("check", "--explore", file)
      #expect(result.output.contains("dead letter") == (code == 1), "\(result)")
    }
  }
}
