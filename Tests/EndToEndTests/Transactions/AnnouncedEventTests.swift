import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Changes that a model makes by itself, together with others", .timed,
  .enabled(if: RecordedNodes.arePossible))
struct AnnouncedEventTests {
  private static let kitchen = Topology(
    name: "kitchen", program: "TestNodes",
    nodes: [
      .machine("Whistler", name: "kettle", restart: Parties.quick),
      .machine("Listener", name: "cook", restart: Parties.quick),
    ],
    composites: [
      CompositeSpecification(
        name: "both", components: ["kettle", "cook"], synchronize: ["whistle"])
    ],
    timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))

  @Test("each is taken once by all, also behind a restart of the model or of its composite")
  func restarts() async throws {
    try await withTopology(Self.kitchen) { topology in
      for (round, killed) in ["kettle", "both", "cook", nil].enumerated() {
        try await topology.send("kettle", Whistler.Event.heat)
        try await topology.expect("kettle", Whistler.State.whistling(times: round + 1))
        try await topology.expect("cook", Listener.State.heard(times: round + 1))
        try await topology.send("kettle", Whistler.Event.cool)
        if let killed { try await topology.kill(killed) }
      }
    }
  }
}
