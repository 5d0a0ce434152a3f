import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Events to a restarting node", .timed)
struct RestartingNodeTests {
  private static func slow(_ pause: Duration, _ durability: Durability) -> Topology {
    Visitors.topology(
      durability: durability, restart: RestartPolicy(backoff: Backoff(initial: pause, max: pause)))
  }

  @Test(
    "An event to a restarting node waits until the node runs, and is applied once",
    arguments: [Durability.volatile, .process])
  func waits(durability: Durability) async throws {
    try await withTopology(Self.slow(.seconds(2), durability)) { topology in
      let first = durability == .volatile ? 0 : 1
      try await topology.send("button", Button.Event.press)
      try await topology.kill("button")
      // On a slow machine the pause may be over.
      try await topology.expectStatus(of: "button", "a pause") {
        $0.phase == "backing off" || $0.incarnation == 2
      }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("send", "button", "press", code: 0)
      #expect(
        result.output == "button: {\"pressed\":{\"times\":\(first + 1)}}  (version \(first + 1))\n",
        "\(result)")
      #expect(try await topology.status("button").incarnation == 2)
    }
  }

  @Test("An event to a restarting node fails on timeout and is not applied")
  func late() async throws {
    try await withTopology(Self.slow(.seconds(600), .process)) { topology in
      try await topology.kill("button")
      try await topology.expectStatus(of: "button", "a pause") { $0.phase == "backing off" }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("send", "button", "press", "--timeout", "200ms", code: 1)
      #expect(result.error.contains("\(TopologyClientError.nodeDown("button", ""))"), "\(result)")
      #expect(result.error.contains("; waited 200 ms\n"), "\(result)")
      try await topology.start("button")
      try await topology.expectStatus(of: "button", "no step") {
        $0.status?.state == ["pressed": ["times": 0]]
      }
    }
  }

  @Test("Events sent during manual restarts are applied exactly once each")
  func byHand() async throws {
    try await withTopology(Visitors.topology()) { topology in
      let sending = Task {
        for _ in 1...200 {
          let outcome = try await topology.client.send("button", Button.Event.press)
          guard case .accepted = outcome else { return outcome as RequestOutcome? }
        }
        return nil
      }
      for _ in 1...3 { try await topology.restart("button") }
      #expect(try await sending.value == nil)
      try await topology.expectStatus(of: "button", "each press once") {
        $0.status?.state == ["pressed": ["times": 200]]
      }
    }
  }
}
