import Compositions
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Effects that produce synchronized events", .timed, .enabled(if: RecordedNodes.arePossible))
struct SynchronizedEffectTests {
  /// Returns a topology of philosophers that only take their forks and put them back.
  private static func table(_ count: Int, durability: Durability) -> Topology {
    let quick = RestartPolicy(
      maximumRestarts: 1_000, window: .seconds(1),
      backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))
    let places = 1...count
    return Topology(
      name: "table", program: "nodes",
      nodes: places.flatMap { place -> [NodeSpecification] in
        [
          .machine(
            "Philosopher", name: "philosopher\(place)",
            parameters: ["thought": 1, "meal": 1], restart: quick, durability: durability),
          .machine("Fork", name: "fork\(place)", restart: quick, durability: durability),
        ]
      },
      composites: places.map { place in
        CompositeSpecification(
          name: "seat\(place)",
          components: ["philosopher\(place)", "fork\(place)", "fork\(place % count + 1)"],
          synchronize: ["take", "release"])
      },
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60)))
  }

  private static func versions(_ topology: TopologyHarness) async throws -> [String: UInt64] {
    let nodes = try await topology.directory().nodes.filter { $0.name.hasPrefix("philosopher") }
    return Dictionary(nodes.map { ($0.name, $0.status?.version ?? 0) }) { first, _ in first }
  }

  /// Waits until each philosopher has taken N more steps.
  private static func eat(_ steps: UInt64, _ topology: TopologyHarness) async throws {
    let before = try await versions(topology)
    let all: Bool? = try await poll(every: .milliseconds(20), within: .seconds(30)) {
      let now = try await versions(topology)
      return before.allSatisfy { (now[$0.key] ?? 0) >= $0.value + steps } ? true : nil
    }
    guard all == true else { throw UnexpectedResult("not all of them eat any more") }
  }

  @Test(
    "Philosophers eat again and again, and each eating philosopher holds both forks",
    arguments: [Durability.volatile, .process])
  func eat(durability: Durability) async throws {
    try await withTopology(Self.table(4, durability: durability)) { topology in
      let collector = StreamCollector(try await topology.states(of: (1...4).map { "seat\($0)" }))
      func isEating(_ change: StateChange) -> Bool {
        change.state["philosopher\(change.node.dropFirst(4))"] == "eating"
      }
      try await Self.eat(40, topology)
      // Counts from the first reported state.
      let areEnough: Bool? = try await poll(every: .milliseconds(20), within: .seconds(30)) {
        collector.all.count(where: isEating) > 40 ? true : nil
      }
      #expect(areEnough == true)
      try await topology.stop("seat1")
      for change in collector.all where isEating(change) {
        let place = Int(change.node.dropFirst(4))!
        #expect(change.state["fork\(place)"] == "held", "\(change)")
        #expect(change.state["fork\(place % 4 + 1)"] == "held", "\(change)")
      }
    }
  }

  @Test("An effect's pending event is not lost, whichever process is killed")
  func killed() async throws {
    try await withTopology(Self.table(3, durability: .process)) { topology in
      for name in ["philosopher1", "seat1", "fork2", "seat2", "philosopher3", "fork1"] {
        try await Self.eat(4, topology)
        try await topology.kill(name)
      }
      try await Self.eat(10, topology)
      try await topology.stop("seat1")
      // No event is in flight: a fork is held exactly if a neighboring philosopher eats. The status
      // of a node that is too busy to answer may be old.
      var states: [String: JSONValue] = [:]
      let doAgree: Bool? = try await poll(every: .milliseconds(20), within: .seconds(20)) {
        for node in try await topology.directory().nodes { states[node.name] = node.status?.state }
        let eating = (1...3).filter { states["philosopher\($0)"] == "eating" }
        let held = Set(eating.flatMap { [$0, $0 % 3 + 1] })
        let areRight = (1...3).allSatisfy {
          states["fork\($0)"] == (held.contains($0) ? "held" : "free")
        }
        return areRight ? true : nil
      }
      #expect(doAgree == true, "\(states)")
      try await topology.start("seat1")
      try await Self.eat(4, topology)
    }
  }
}
