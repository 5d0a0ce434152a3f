import PipeClient
import PipeTransport
import TestSupport
import Testing

@Suite("A client of a topology")
struct TopologyClientTests {
  /// An endpoint where no process answers.
  private let nowhere = "ipc:///tmp/piperuntime-no-such-orchestrator"

  @Test("A closed client ends pending calls and refuses later calls")
  func closed() async throws {
    let client = try TopologyClient(topology: "nowhere", control: nowhere)
    let waiting = Task { try await client.directory() }
    // Either the call is pending, or it finds the client closed.
    client.close()
    await #expect(throws: TopologyClientError.closed) { try await waiting.value }
    await #expect(throws: TopologyClientError.closed) { try await client.directory() }
    client.close()
  }

  @Test("A client that gets no reply fails within its timeout")
  func unanswered() async throws {
    let client = try TopologyClient(
      topology: "nowhere", control: nowhere, answerTimeout: .milliseconds(20))
    await #expect(throws: TopologyClientError.notAnswering("nowhere", after: .milliseconds(20))) {
      try await client.directory()
    }
  }

  @Test(
    "If the orchestrator dies while a client connects, the client fails before its timeout"
  )
  func died() async throws {
    let directory = try TemporaryDirectory()
    let roots = RuntimeRoots(environment: ["PIPERUNTIME_ROOT": directory.path])
    let directories = try RuntimeDirectories(topology: "lift", roots: roots)
    let lock = try TopologyLock.acquire(directories, file: nil)
    let client = try TopologyClient(
      topology: "lift", control: directories.endpoint(.control), answerTimeout: .seconds(600))
    defer { client.close() }
    // The client has seen the lock, so it assumes that an orchestrator is about to listen.
    let waiting = Task { try await client.directory() }
    lock.release()
    await #expect(throws: TopologyClientError.orchestratorGone("lift")) { try await waiting.value }
  }

  @Test("A client that cannot connect fails and leaves no thread behind")
  func endpoint() {
    #expect(throws: TransportError.self) {
      try TopologyClient(topology: "nowhere", control: "nonsense://here")
    }
  }
}
