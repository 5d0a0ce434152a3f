import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Synchronized events one right behind the other", .timed)
struct SynchronizedLoadTests {
  private static let callerCount = 6

  @Test(
    "are all taken, none finds its participants busy with the one before",
    arguments: Durability.allCases)
  func following(durability: Durability) async throws {
    try await withTopology(Parties.pair(durability: durability)) { topology in
      let perCaller = 40
      let replies = try await withThrowingTaskGroup(of: [SynchronizedReply].self) { group in
        for _ in 0..<Self.callerCount {
          group.addTask {
            var replies: [SynchronizedReply] = []
            for _ in 0..<perCaller { replies.append(try await Self.meet(topology)) }
            return replies
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      let versions = replies.compactMap { reply -> UInt64? in
        guard case .committed(_, let versions) = reply, versions["left"] == versions["right"] else {
          return nil
        }
        return versions["left"]
      }
      #expect(versions.sorted() == Array(1...UInt64(Self.callerCount * perCaller)))
      try await topology.expectMet(Self.callerCount * perCaller)
    }
  }

  /// Asks again where the coordinator's own limits have passed, since the disk takes longer: a
  /// participant that is busy with the event before says so at once.
  private static func meet(_ topology: TopologyHarness) async throws -> SynchronizedReply {
    while true {
      let start = ContinuousClock.now
      let reply = try await topology.meet()
      if reply.isCommitted || start.duration(to: .now) < .seconds(1) { return reply }
    }
  }

  @Test(
    "leave the participants their turns: what each is sent alone is taken between them",
    arguments: Durability.allCases)
  func turns(durability: Durability) async throws {
    try await withTopology(Parties.pair(durability: durability)) { topology in
      let stepCount = 20
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<Self.callerCount {
          group.addTask {
            while !Task.isCancelled { _ = try await topology.meet(mode: .await(.seconds(60))) }
          }
        }
        for _ in 0..<stepCount {
          guard case .moved = try await topology.send("left", Party.Event.step) else {
            throw Unexpected("a step was not taken")
          }
        }
        group.cancelAll()
      }
      guard case .willing(let met, let steps) = try await topology.party("left") else {
        throw Unexpected("the left one is not willing")
      }
      #expect(steps == stepCount)
      #expect(met > 0)
    }
  }
}
