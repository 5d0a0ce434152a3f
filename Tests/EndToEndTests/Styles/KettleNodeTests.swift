import KettleSuite
import Kettles
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// Checks that a kettle as a node, driven from this process, behaves as in one process, in every
/// style.
@Suite("A kettle as a remote node in each style", .timed)
struct KettleNodeTests {
  /// A topology with a node for each kettle that is made.
  private struct Nodes: KettleEnvironment {
    let topology: TopologyHarness
    let boilTime = 200
    let isExact = false

    var now: Duration { ContinuousClock.now - Self.start }
    private static let start = ContinuousClock.now

    func make(_ style: KettleStyle, boilTime: Int) async throws -> any Kettle {
      try await style.follow(boilTime == self.boilTime ? "quick" : "slow", topology.client)
    }

    func pass(_ duration: Duration, of left: Duration, heating kettle: any Kettle) async throws {
      let end = now + duration
      // Each event is refused and takes some time.
      while now < end { _ = try await kettle.switchOn() }
    }
  }

  private static func asNodes(
    _ style: KettleStyle, _ body: (Nodes) async throws -> Void
  ) async throws {
    let text = """
      topology: kettles
      program: nodes
      nodes:
        quick: { machine: \(style.machine), parameters: { boilTime: 200 } }
        slow: { machine: \(style.machine), parameters: { boilTime: 3600000 } }
      """
    try await withTopology(yaml: text) { try await body(Nodes(topology: $0)) }
  }

  @Test(
    "A kettle node processes events in the order in which they were sent",
    arguments: KettleStyle.hosted
  )
  func order(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.order(style, in: $0) }
  }

  @Test(
    "A kettle node processes posted events in the order in which they were posted",
    arguments: KettleStyle.hosted)
  func posted(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.posted(style, in: $0) }
  }

  @Test(
    "An event that a kettle node's state does not accept changes nothing",
    arguments: KettleStyle.hosted)
  func refusal(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.refusal(style, in: $0) }
  }

  @Test(
    "A kettle node's effect changes the state after the set time",
    arguments: KettleStyle.hosted)
  func effect(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.effect(style, in: $0) }
  }

  @Test(
    "A kettle node's effect is cancelled when the kettle leaves the state",
    arguments: KettleStyle.hosted)
  func cancellation(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.cancellation(style, in: $0) }
  }
}
