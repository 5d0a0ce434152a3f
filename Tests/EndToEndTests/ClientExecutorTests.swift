import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The task executor of a client", .timed)
struct ClientExecutorTests {
  @Test(
    "A client's executor keeps a task on the client's thread between requests",
    .stallLimit(.seconds(60)))
  func thread() async throws {
    try await withTopology(Parties.pair(durability: .volatile)) { topology in
      let client = topology.client
      let threads = try await withTaskExecutorPreference(client.executor) {
        var threads: Set<pthread_t> = [Self.currentThread()]
        for count in 1...20 {
          guard case .accepted(let version, _) = try await client.send("left", Party.Event.step)
          else {
            throw UnexpectedResult("a step was not taken")
          }
          #expect(version == UInt64(count))
          threads.insert(Self.currentThread())
        }
        return threads
      }
      #expect(threads.count == 1)
      #expect(!threads.contains(Self.currentThread()))
    }
  }

  @Test(
    "A task on a client's executor can close the client and continue",
    .stallLimit(.seconds(60)))
  func close() async throws {
    try await withTopology(Parties.pair(durability: .volatile)) { topology in
      let client = try TopologyClient(
        topology: topology.topology, control: topology.control,
        answerTimeout: TopologyHarness.clientTimeout)
      await withTaskExecutorPreference(client.executor) {
        await #expect(throws: Never.self) { try await client.send("left", Party.Event.step) }
        client.close()
        await #expect(throws: TopologyClientError.closed) {
          try await client.send("left", Party.Event.step)
        }
      }
      try await topology.expect("left", Party.State.willing(met: 0, steps: 1))
    }
  }

  private static func currentThread() -> pthread_t { pthread_self() }
}
