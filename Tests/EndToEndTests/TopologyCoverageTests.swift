import Compositions
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Coverage of a topology's steps across processes", .timed)
struct TopologyCoverageTests {
  @Test("Steps of nodes and synchronized events are counted over all runs of a suite")
  func lift() async throws {
    let coverage = TopologyCoverage(expecting: [
      .moved("door", from: "closed", to: "open"),
      .moved("door", from: "open", to: "closed"),
      .moved("door", from: "closed", to: "stopped"),
      .moved("door", from: "stopped", to: "closed"),
      .moved("lift", from: "waiting", to: "boarding"),
      .moved("lift", from: "boarding", to: "waiting"),
      .moved("lift", from: "waiting", to: "stopped"),
      .moved("lift", from: "stopped", to: "waiting"),
    ])
    var options = TopologyHarness.Options()
    options.coverage = coverage
    try await withTopology("topologies/lift.yaml", options: options) { topology in
      #expect(
        try await topology.client.synchronize(
          "lift", LiftDoor.Event.open, mode: .await(.seconds(300))
        ).isCommitted)
      try await topology.expect("door", is: "open")
      try await topology.send("door", LiftDoor.Event.close)
      try await topology.expect("door", is: "closed")
      try await topology.expect("lift", inOrder: ["boarding", "waiting"])
    }
    #expect(coverage.entries.filter { $0.seenCount > 0 }.count == 5)
    #expect(!coverage.unseenSteps.contains(.synchronized("open", by: "lift")))
    try await withTopology("topologies/lift.yaml", options: options) { topology in
      for event in [LiftDoor.Event.emergencyStop, .reset] {
        #expect(
          try await topology.client.synchronize("lift", event, mode: .await(.seconds(300)))
            .isCommitted)
      }
      try await topology.expect("door", inOrder: ["stopped", "closed"])
      try await topology.expect("lift", inOrder: ["stopped", "waiting"])
    }
    #expect(coverage.unseenSteps == [.synchronized("go", by: "lift")])
    coverage.assertComplete(except: [.synchronized("go", by: "lift")])
  }
}
