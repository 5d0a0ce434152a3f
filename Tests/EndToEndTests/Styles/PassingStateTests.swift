import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Intermediate states of a model's step", .timed, .enabled(if: RecordedNodes.arePossible))
struct PassingStateTests {
  private static func heater(
    time: Int, pipes: [PipeSpecification] = [], durability: Durability = .process
  ) -> Topology {
    let quick = RestartPolicy(backoff: Backoff(initial: .milliseconds(1)))
    return Topology(
      name: "heater", program: "TestNodes",
      nodes: [
        .machine(
          "Heater", name: "heater", parameters: ["time": .integer(Int64(time))], restart: quick,
          durability: durability),
        .machine("Button", name: "lamp", durability: durability),
        .machine("Button", name: "bell", durability: durability),
        .machine("Thermostat", name: "thermostat", durability: durability),
      ], pipes: pipes)
  }

  private static let pipes: [PipeSpecification] = [
    .rule(from: "heater", when: "warming", to: "lamp", send: "press"),
    .ports(from: "heater.warmed", to: "bell"),
    .ports(from: "thermostat.heater", to: "heater.thermostat"),
  ]

  @Test("Monitors see each intermediate state of the example with a separate version")
  func example() async throws {
    try await withTopology("topologies/example.yaml") { topology in
      for round in 1...10 {
        let outcome = try await topology.send("example", ExampleModel.Event.eventA)
        guard case .accepted(let version, _) = outcome else { return #expect(Bool(false)) }
        #expect(version == UInt64(3 * round - 1))
        let seen = try await topology.expect("example", exactly: ["state2", "state3"])
        #expect(seen.map(\.version) == [version - 1, version])
        #expect(seen.map(\.isIntermediate) == [true, false])
        #expect(seen.map(\.missedCount) == [0, 0])
        try await topology.send("example", ExampleModel.Event.eventB(param: round))
        try await topology.expect("example", ExampleState.state1(message: "\(round)"))
      }
      #expect(try await topology.status("example").status?.events == 20)
    }
  }

  @Test("An intermediate state is shown while its step is in progress")
  func live() async throws {
    try await withTopology(Self.heater(time: 3_600_000)) { topology in
      let client = topology.client
      let sending = Task { try await client.send("heater", Heater.Event.heat) }
      let state = try await topology.expect("heater", Heater.State.warming(degrees: 30))
      #expect(state.isIntermediate)
      #expect(
        try await topology.status("heater").status?.state == ["warming": ["degrees": 30]])
      sending.cancel()
    }
  }

  /// Waits until the heater's pipes are empty.
  /// - Returns: The number of events that each pipe has delivered.
  private static func delivered(_ topology: TopologyHarness) async throws -> [UInt64?] {
    try await topology.expectStatus(of: "heater", "empty pipes") {
      $0.status?.outs.allSatisfy { $0.applied == $0.events } == true
    }
    return [
      try await topology.status("lamp").status?.events,
      try await topology.status("bell").status?.events,
    ]
  }

  @Test("Pipe rules and ports send each intermediate state once, and in-ports deliver events")
  func pipes() async throws {
    try await withTopology(Self.heater(time: 0, pipes: Self.pipes)) { topology in
      for round in 1...5 as ClosedRange<UInt64> {
        try await topology.send("thermostat", Thermostat.Event.turn)
        try await topology.expect("heater", Heater.State.warm)
        #expect(try await Self.delivered(topology) == [2 * round, 2 * round])
        try await topology.send("heater", Heater.Event.cool)
        try await topology.expect("heater", Heater.State.cold)
      }
    }
  }

  @Test("A model that is killed during a step repeats the step, and its pipes send each state once")
  func killed() async throws {
    try await withTopology(Self.heater(time: 400, pipes: Self.pipes)) { topology in
      for round in 1...3 as ClosedRange<UInt64> {
        try await topology.send("thermostat", Thermostat.Event.turn)
        let before = try await topology.expect("heater", Heater.State.warming(degrees: 60))
        #expect(before.version == 4 * round - 2)
        try await topology.kill("heater")
        let after = try await topology.expect("heater", Heater.State.warm, within: .seconds(20))
        #expect(after.incarnation > before.incarnation)
        #expect(after.version == 4 * round - 1)
        #expect(try await Self.delivered(topology) == [2 * round, 2 * round])
        try await topology.send("heater", Heater.Event.cool)
        try await topology.expect("heater", Heater.State.cold)
      }
    }
  }
}
