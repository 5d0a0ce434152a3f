import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Requests that come again under their number", .timed)
struct RepeatedRequestTests {
  private static let gate = """
    topology: gate
    program: TestNodes
    nodes: { gate: { machine: Gate } }
    """

  /// A client that speaks the protocol itself.
  private final class Client {
    private let socket: Socket
    private let directory: TestDirectory

    init(_ topology: TopologyHarness, of node: String) async throws {
      directory = topology.directory
      socket = try Socket(.dealer, in: Context())
      try socket.connect(try await topology.status(node).inbox)
    }

    deinit { socket.close() }

    /// Sends a request. Returns the code of its reply.
    func ask(_ event: String, number: UInt64) async throws -> UInt32? {
      let header = FrameHeader(.request, count: 0, sequence: number, number: 0xC0FFEE)
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

  @Test("one that was refused is refused again, and not applied in a later state")
  func refused() async throws {
    try await withTopology(yaml: Self.gate) { topology in
      let client = try await Client(topology, of: "gate")
      #expect(try await client.ask("pass", number: 1) == RequestReply.Code.refused.rawValue)
      try await topology.send("gate", Gate.Event.open)
      #expect(try await client.ask("pass", number: 1) == RequestReply.Code.refused.rawValue)
      #expect(try await client.ask("pass", number: 2) == RequestReply.Code.moved.rawValue)
      #expect(try await client.ask("pass", number: 2) == RequestReply.Code.moved.rawValue)
      try await topology.expect("gate", Gate.State.open(passed: 1))
      #expect(try await topology.status("gate").status?.refused == 1)
    }
  }
}
