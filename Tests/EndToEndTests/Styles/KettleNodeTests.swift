import KettleSuite
import Kettles
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// What a kettle does as a node that is driven from this process, in whatever style it is written: the
/// same as in one process.
@Suite("Each style: a kettle that is a node elsewhere", .timed)
struct KettleNodeTests {
  /// A topology with a kettle for each that is made.
  private struct Nodes: KettlePlace {
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
      // Each is refused, and takes its time.
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

  @Test("events are taken in the order given", arguments: KettleStyle.hosted)
  func order(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.order(style, in: $0) }
  }

  @Test(
    "events that nobody waits for are taken in the order given, too",
    arguments: KettleStyle.hosted)
  func posted(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.posted(style, in: $0) }
  }

  @Test("an event that the state does not take changes nothing", arguments: KettleStyle.hosted)
  func refusal(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.refusal(style, in: $0) }
  }

  @Test("its effect takes its time, and leads to the next state", arguments: KettleStyle.hosted)
  func effect(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.effect(style, in: $0) }
  }

  @Test("its effect is cancelled when its state is left", arguments: KettleStyle.hosted)
  func cancellation(style: KettleStyle) async throws {
    try await Self.asNodes(style) { try await KettleBehaviour.cancellation(style, in: $0) }
  }
}
