import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A node whose model acts by itself", .timed)
struct AnnouncingNodeTests {
  @Test(
    "A node whose model changes by itself has no running effect while idle, even after a restart")
  func atRest() async throws {
    let topology = Topology(
      name: "kitchen", program: "TestNodes", nodes: [.machine("Whistler", name: "node")])
    try await withTopology(topology) { topology in
      for (times, incarnation) in [(1, 1), (2, 2)] as [(Int, UInt64)] {
        try await topology.expectStatus(of: "node", "a process without effects") {
          $0.isRunning && $0.incarnation == incarnation && $0.status?.effects == 0
        }
        try await topology.send("node", Whistler.Event.heat)
        try await topology.expect("node", Whistler.State.whistling(times: times))
        try await topology.send("node", Whistler.Event.cool)
        try await topology.expect("node", Whistler.State.quiet(times: times))
        #expect(
          try JournalFile(of: "node", in: topology).integer("SELECT count(*) FROM effect") == 0)
        if incarnation == 1 { try await topology.kill("node") }
      }
    }
  }
}
