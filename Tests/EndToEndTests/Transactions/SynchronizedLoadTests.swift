import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Synchronized events in close succession", .timed)
struct SynchronizedLoadTests {
  private static let callerCount = 6

  @Test(
    "Synchronized events in close succession all commit, and no event finds a participant busy",
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

  /// Requests the event. A coordinator's timeouts may have passed because of a slow disk; then the
  /// request is repeated. If a participant were still busy with the former event, the reply would
  /// come at once.
  private static func meet(_ topology: TopologyHarness) async throws -> SynchronizedReply {
    while true {
      let start = ContinuousClock.now
      let reply = try await topology.meet()
      if reply.isCommitted || start.duration(to: .now) < .seconds(1) { return reply }
    }
  }

  @Test(
    "Participants take their own events between synchronized events in close succession",
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
          guard case .accepted = try await topology.send("left", Party.Event.step) else {
            throw UnexpectedResult("a step was not taken")
          }
        }
        group.cancelAll()
      }
      guard case .willing(let met, let steps) = try await topology.party("left") else {
        throw UnexpectedResult("the left one is not willing")
      }
      #expect(steps == stepCount)
      #expect(met > 0)
    }
  }
}
