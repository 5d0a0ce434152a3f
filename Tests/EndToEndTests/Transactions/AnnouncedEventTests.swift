import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Synchronized changes that a model makes by itself", .timed,
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

  @Test("If a model causes a synchronized event by itself, all participants take the event once")
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
