import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Requests repeated with the same request number", .timed)
struct RepeatedRequestTests {
  private static let gate = """
    topology: gate
    program: TestNodes
    nodes: { gate: { machine: Gate } }
    """

  /// A client that implements the protocol itself.
  private final class Client {
    private let socket: Socket
    private let directory: TestDirectory

    init(_ topology: TopologyHarness, of node: String) async throws {
      directory = topology.directory
      socket = try Socket(.dealer, in: Context())
      try socket.connect(try await topology.status(node).inbox)
    }

    deinit { socket.close() }

    /// Sends a request, and returns the code of its reply.
    func ask(_ event: String, number: UInt64) async throws -> UInt32? {
      let header = FrameHeader(.request, count: 0, sequence: number, incarnationOrSession: 0xC0FFEE)
      socket.sendPart(header.frame(body: Array("\"\(event)\"".utf8)), more: false)
      return try await poll(within: .seconds(20), of: directory) {
        var code: UInt32?
        _ = socket.receiveFirst { bytes in
          guard let header = try? FrameHeader(bytes), header.sequence == number else { return }
          code = header.count
        }
        return code
      }
    }
  }

  @Test("A repeated request stays refused, even if the node would accept the event now")
  func refused() async throws {
    try await withTopology(yaml: Self.gate) { topology in
      let client = try await Client(topology, of: "gate")
      #expect(try await client.ask("pass", number: 1) == RequestReply.Code.refused.rawValue)
      try await topology.send("gate", Gate.Event.open)
      #expect(try await client.ask("pass", number: 1) == RequestReply.Code.refused.rawValue)
      #expect(try await client.ask("pass", number: 2) == RequestReply.Code.accepted.rawValue)
      #expect(try await client.ask("pass", number: 2) == RequestReply.Code.accepted.rawValue)
      try await topology.expect("gate", Gate.State.open(passed: 1))
      #expect(try await topology.status("gate").status?.refused == 1)
    }
  }

  /// A node `gate` that starts only after the node `slow`, which is slow to restart.
  private static let late = """
    topology: gate
    program: TestNodes
    nodes:
      slow: { machine: Button, restart: { backoff: { initial: 3s } } }
      gate: { machine: Gate, depends_on: [slow], restart: { backoff: { initial: 10ms } } }
    """

  @Test(
    "If a request was recorded before a crash, a repeated request gets the reply after the restart"
  )
  func beforeStart() async throws {
    var options = TopologyHarness.Options()
    options.environment = ["PIPERUNTIME_FAILPOINTS": "gate:reply.before=crash@2/1"]
    try await withTopology(yaml: Self.late, options: options) { topology in
      #expect(try await topology.send("gate", Gate.Event.open).isMoved)
      try await topology.kill("slow")
      // One request comes from the library's client, and one from a client that implements the
      // protocol itself.
      async let outcome = topology.send("gate", Gate.Event.pass, timeout: .seconds(30))
      try await topology.expectLog("gate", contains: "failpoint reply.before: crash")
      let client = try await Client(topology, of: "gate")
      var codes: Set<UInt32> = []
      while let code = try await client.ask("pass", number: 1) {
        codes.insert(code)
        if code != RequestReply.Code.unavailable.rawValue { break }
        try await Task.sleep(for: .milliseconds(5))
      }
      // The request arrived before the start, as this test requires.
      #expect(
        codes == [RequestReply.Code.unavailable.rawValue, RequestReply.Code.accepted.rawValue])
      #expect(try await outcome.isMoved)
      try await topology.expect("gate", Gate.State.open(passed: 2))
      #expect(try await topology.status("gate").incarnation == 2)
    }
  }
}

extension RequestOutcome {
  fileprivate var isMoved: Bool { if case .accepted = self { true } else { false } }
}
