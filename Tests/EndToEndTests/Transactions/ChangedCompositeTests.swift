import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Composites that are changed between two runs", .timed, .enabled(if: RecordedNodes.arePossible))
struct ChangedCompositeTests {
  private static func parties(_ composites: String, third: String = "machine: Party") -> String {
    """
    topology: parties
    program: TestNodes
    nodes:
      left: { machine: Party }
      right: { machine: Party }
      third: { \(third) }
    composites:
    \(composites)
    timeouts: { heartbeat: 60s }
    """
  }

  private static let pair = "  pair: { components: [left, right], synchronize: [meet] }\n"

  private static func meet(
    _ composites: String..., in parties: DetachedTopology
  ) async throws {
    let client = try parties.client()
    defer { client.close() }
    for composite in composites {
      let reply = try await client.synchronize(
        composite, Party.Event.meet, mode: .await(.seconds(20)))
      #expect(reply.isCommitted, "\(composite): \(reply)")
    }
  }

  @Test("their participants follow a coordinator of another name, though it counts from one")
  func renamed() async throws {
    try await DetachedTopology.with(Self.parties(Self.pair), name: "parties") { parties in
      for _ in 0..<2 { try await parties.run("restart", "pair") }
      try await Self.meet("pair", "pair", in: parties)
      try await parties.run("down")
      let other = "  other: { components: [right, third], synchronize: [meet] }\n"
      try parties.write(Self.parties(other + Self.pair))
      try await parties.up()
      try await Self.meet("pair", "other", "pair", in: parties)
      try await parties.run("down")
    }
  }

  @Test("a participant that had not acknowledged and takes part no more is not waited for")
  func gone() async throws {
    let all = "  pair: { components: [left, right, third], synchronize: [meet] }\n"
    let dying =
      "machine: Party, restart: { policy: never }, "
      + "environment: { PIPERUNTIME_FAILPOINTS: commit.received=crash }"
    try await DetachedTopology.with(Self.parties(all, third: dying), name: "parties") { parties in
      try await Self.meet("pair", in: parties)
      try await parties.await("the third one is dead") { $0[node: "third"]?.phase == "failed" }
      try await parties.run("down")
      try parties.write(Self.parties(Self.pair))
      try await parties.up()
      try await Self.meet("pair", in: parties)
      #expect(try parties.log("pair").contains { $0.contains("it takes part no more") })
      try await parties.run("down")
    }
  }
}
