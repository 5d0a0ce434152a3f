import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// Topologies of two parties that synchronize an event.
enum Parties {
  static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  /// The possible carrier nodes of the coordinator; `nil` for a coordinator with a process of its
  /// own.
  static let hosts: [String?] = [nil, "left", "right"]

  static func pair(
    environment: [String: String] = [:], durability: Durability = .process,
    within host: String? = nil
  ) -> Topology {
    Topology(
      name: "parties", program: "TestNodes", environment: environment,
      nodes: ["left", "right"].map {
        .machine("Party", name: $0, restart: quick, durability: durability)
      },
      composites: [
        CompositeSpecification(
          name: "pair", components: ["left", "right"], synchronize: ["meet"], within: host)
      ],
      timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(60)))
  }
}

extension TopologyHarness {
  /// Requests the synchronized event, and repeats the request until its outcome is known.
  func meet(
    _ composite: String = "pair", mode: SynchronizedMode = .try
  ) async throws -> SynchronizedReply {
    try await client.synchronize(
      composite, Party.Event.meet, mode: mode)
  }

  /// Waits until both parties report this number of meetings. A caller gets its reply before the
  /// parties get the commit.
  func expectMet(_ count: Int, within timeout: Duration = .seconds(20)) async throws {
    let state = try JSONValue(encoding: Party.State.willing(met: count, steps: 0))
    for name in ["left", "right"] {
      try await expectStatus(of: name, "\(count) events", within: timeout) {
        $0.status?.state == state
      }
    }
  }

  /// Returns the current state of a party.
  func party(_ name: String) async throws -> Party.State {
    let status = try await expectStatus(of: name, "its state") { $0.status?.state != nil }
    return try EventCodec<Party.State>().decode(status.status!.state!.bytes)
  }
}

/// An unexpected event in a test.
struct UnexpectedResult: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
