import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Synchronized requests repeated with the same request number", .timed)
struct RepeatedSynchronizedRequestTests {
  /// A coordinator that crashes when it has recorded its first commit. In the second run one node
  /// is slow to become ready, and no node starts before that.
  private static let parties = """
    topology: parties
    program: TestNodes
    environment: { PIPERUNTIME_FAILPOINTS: "pair:commit.recorded=crash@1/1,slow:restore.after=delay:2s@1/2" }
    nodes:
      left: { machine: Party }
      right: { machine: Party }
      slow: { machine: Party }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    timeouts: { heartbeat: 60s }
    """

  /// A client that implements the protocol itself.
  private final class Caller {
    private let socket: Socket
    private let directory: TestDirectory

    init(_ parties: DetachedTopology) throws {
      directory = parties.tool.directory
      socket = try Socket(.dealer, in: Context())
      try socket.connect(parties.directories.endpoint(.inbox(node: "pair")))
    }

    deinit { socket.close() }

    /// Sends the same request each time.
    func send() {
      let header = FrameHeader(
        .synchronize, flags: SynchronizeFlag.try.rawValue, sequence: 1,
        incarnationOrSession: 0xC0FFEE)
      let body = TransactionBody(composite: "pair", event: Array("\"meet\"".utf8)).bytes
      socket.sendPart(header.frame(body: body), more: false)
    }

    /// Returns the code and the body of the next reply.
    func reply() async throws -> (code: UInt32, body: [UInt8]) {
      let reply = try await poll(within: .seconds(20), of: directory) {
        var found: (code: UInt32, body: [UInt8])?
        _ = self.socket.receiveFirst { bytes in
          guard let header = try? FrameHeader(bytes), header.sequence == 1 else { return }
          found = (header.count, Array(bytes[FrameHeader.byteCount...]))
        }
        return found
      }
      return try #require(reply)
    }
  }

  @Test("If a request's commit was recorded, a repeated request gets the reply after a restart")
  func beforeStart() async throws {
    try await DetachedTopology.with(Self.parties, name: "parties") { parties in
      let lost = try Caller(parties)
      lost.send()
      let met = try JSONValue(encoding: Party.State.willing(met: 1, steps: 0))
      try await parties.await("the commit, by the second process") { directory in
        ["left", "right"].allSatisfy { directory[node: $0]?.status?.state == met }
          && directory[node: "pair"]?.incarnation == 2
      }
      try await parties.run("down")
      let second = try parties.tool.start(["up", "--wait", "--wait-timeout", "10m", "parties.yaml"])
      let caller = try Caller(parties)
      var codes: Set<UInt32> = []
      var answer: [UInt8]?
      while answer == nil {
        caller.send()
        let (code, body) = try await caller.reply()
        codes.insert(code)
        if code != RequestReply.Code.unavailable.rawValue { answer = body }
        await Task.yield()
      }
      // The request arrived before the start, as this test requires.
      #expect(
        codes == [RequestReply.Code.unavailable.rawValue, RequestReply.Code.synchronized.rawValue])
      let outcome = try JSONValue(parsing: answer ?? [])
      #expect(outcome["outcome"]?.string == "committed", "\(outcome)")
      #expect(try await parties.end(of: second).code == 0)
      try await parties.await("no second event") { directory in
        ["left", "right"].allSatisfy { directory[node: $0]?.status?.state == met }
      }
      try await parties.run("down")
    }
  }
}
