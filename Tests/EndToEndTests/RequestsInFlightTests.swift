import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Requests of clients in flight", .timed)
struct RequestsInFlightTests {
  private static let hoarder = """
    topology: hoard
    program: TestNodes
    nodes: { hoarder: { machine: Hoarder, restart: { backoff: { initial: 10ms } } } }
    """

  /// Sends `meet` repeatedly, with a limited number in flight.
  /// - Parameter answered: A function that is called after each reply with the number of replies.
  /// - Returns: The versions in the replies.
  private static func meet(
    _ count: Int, inFlight: Int, by client: TopologyClient,
    answered: (Int) async throws -> Void = { _ in }
  ) async throws -> Set<UInt64> {
    try await withThrowingTaskGroup(of: UInt64.self) { group in
      var versions: Set<UInt64> = []
      var started = min(count, inFlight)
      for _ in 0..<started { send(by: client, in: &group) }
      while let version = try await group.next() {
        versions.insert(version)
        try await answered(versions.count)
        guard started < count else { continue }
        started += 1
        send(by: client, in: &group)
      }
      return versions
    }
  }

  private static func send(
    by client: TopologyClient, in group: inout ThrowingTaskGroup<UInt64, any Error>
  ) {
    group.addTask {
      let outcome = try await client.send("hoarder", Hoarder.Event.meet, timeout: .seconds(60))
      guard case .accepted(let version, _) = outcome else {
        Issue.record("\(outcome)")
        return 0
      }
      return version
    }
  }

  /// Returns how often `meet` was applied: all steps except the first.
  private static func met(_ topology: TopologyHarness) async throws -> UInt64 {
    try await topology.status("hoarder").status.map { $0.version - 1 } ?? 0
  }

  @Test(
    "Each request is applied once, whatever the size of the state and the number of requests",
    arguments: [
      (100, 1, 100), (100, 10_000, 20_000), (136_000, 1, 50), (136_000, 200, 400),
      (136_000, 2_000, 2_000), (900_000, 50, 100),
    ])
  func once(byteCount: Int, inFlight: Int, count: Int) async throws {
    try await withTopology(yaml: Self.hoarder) { topology in
      try await topology.send("hoarder", Hoarder.Event.grow(byteCount: byteCount))
      let versions = try await Self.meet(count, inFlight: inFlight, by: topology.client)
      #expect(versions == Set(2...UInt64(count + 1)))
      #expect(try await Self.met(topology) == UInt64(count))
    }
  }

  @Test(
    "Each request is applied once while the node is killed again and again",
    arguments: [(100, 1_000), (60_000, 300)])
  func kills(byteCount: Int, inFlight: Int) async throws {
    let count = 1_500
    try await withTopology(yaml: Self.hoarder) { topology in
      try await topology.send("hoarder", Hoarder.Event.grow(byteCount: byteCount))
      let versions = try await Self.meet(count, inFlight: inFlight, by: topology.client) { ended in
        // The former process may just have ended.
        if ended % 300 == 150 { _ = try? await topology.kill("hoarder") }
      }
      #expect(versions == Set(2...UInt64(count + 1)))
      // The last kill may come after the last answer was sent.
      let node = try await topology.expectStatus(of: "hoarder", "its state after the last kill") {
        $0.isRunning && $0.status != nil
      }
      #expect(node.status?.version == UInt64(count + 1))
      #expect(node.incarnation > 1)
    }
  }

  @Test("If a client ends, each of its requests in flight is applied at most once")
  func deaths() async throws {
    try await withTopology(yaml: Self.hoarder) { topology in
      try await topology.send("hoarder", Hoarder.Event.grow(byteCount: 50_000))
      let directories = try RuntimeDirectories(topology: "hoard", roots: topology.directory.roots)
      var versions: Set<UInt64> = []
      for _ in 0..<5 {
        let client = try TopologyClient(
          topology: "hoard", control: directories.endpoint(.control))
        let answered = try await withThrowingTaskGroup(of: UInt64?.self) { group in
          for _ in 0..<100 {
            group.addTask {
              let outcome = try? await client.send(
                "hoarder", Hoarder.Event.meet, timeout: .seconds(60))
              if case .accepted(let version, _)? = outcome { return version }
              return nil
            }
          }
          var answered: Set<UInt64> = []
          while let version = try await group.next() {
            if let version { #expect(answered.insert(version).inserted) }
            if answered.count == 30 { client.close() }
          }
          return answered
        }
        #expect(versions.isDisjoint(with: answered))
        versions.formUnion(answered)
      }
      let met = try await Self.met(topology)
      #expect(met >= versions.count && met <= 500)
    }
  }
}
