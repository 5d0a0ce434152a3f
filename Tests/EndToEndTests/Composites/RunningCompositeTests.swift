import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("'describe' of a running composite", .timed)
struct RunningCompositeTests {
  @Test("'describe' shows a running composite's definition and its status")
  func lift() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      let tool = CommandLineTool(beside: topology)
      let node = try await topology.status("lift")
      let result = try await tool.run("describe", "lift", code: 0)
      #expect(
        result.output == """
          lift  running  waiting(floor: 0)  (version 0)
            composite     program nodes
            components    door, motor
            synchronizes  emergencyStop   door, motor
                          go(floor: Int)  door, motor
                          open            door, motor
                          reset           door, motor
            passes on     close         door
                          enter         door
                          floorReached  motor
            mode          rendezvous: all or none; a client can request broadcast instead
            projection    LiftState
            coordinator   its own
            durability    process
                          \(node.journal ?? "")

          """)
      #expect(result.error == "")
    }
  }

  @Test("'describe -o json' shows composites even while their shared coordinator is down")
  func table() async throws {
    let table = try ExampleTopology.read(
      "philosophers.yaml", parameters: ["Philosopher": ["thought": 600_000, "meal": 600_000]])
    try await withTopology(table) { topology in
      let tool = CommandLineTool(beside: topology)
      try await topology.stop("seat1")
      let result = try await tool.run("describe", "seat5", "fork1", "-o", "json", code: 0)
      guard case .array(let pages) = try JSONValue(parsing: result.output.utf8), pages.count == 2
      else { throw UnexpectedResult("two pages, not \(result)") }
      #expect(pages[0]["composite"] == "seat5")
      #expect(pages[0]["coordinator"] == "seat1")
      #expect(pages[0]["conflictClass"] == ["seat1", "seat2", "seat3", "seat4", "seat5"])
      #expect(pages[0]["modes"] == ["rendezvous", "broadcast"])
      #expect(pages[0]["status"]?["phase"] == "stopped")
      let plan = pages[0]["description"]
      #expect(plan?["nodes"] == ["philosopher5", "fork5", "fork1"])
      guard case .array(let vectors)? = plan?["vectors"] else {
        throw UnexpectedResult("vectors, not \(result)")
      }
      #expect(vectors.map { $0["event"] } == ["release", "take"])
      #expect(vectors.allSatisfy { $0["participants"] == ["fork1", "fork5", "philosopher5"] })
      #expect(pages[1]["node"] == "fork1")
      let text = try await tool.run("describe", "seat5")
      #expect(
        text.output.contains("  coordinator   shared with seat1, seat2, seat3, seat4\n"), "\(text)")
    }
  }
}
