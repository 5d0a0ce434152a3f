import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Garbage on the sockets", .timed)
struct GarbageTests {
  private static let pair = """
    topology: pair
    program: TestNodes
    nodes: { source: { machine: Source }, sink: { machine: Sink } }
    pipes: [{ from: source.out, to: sink.in, name: numbers }]
    """

  /// Malformed frames, and frames that are not meant for the receiver.
  private static let frames: [[UInt8]] = {
    let header = FrameHeader(.request, sequence: 1).frame()
    var unknownVersion = header
    unknownVersion[1] = 99
    var unknownKind = header
    unknownKind[2] = 250
    return [
      Array("hello".utf8), [UInt8](repeating: 0, count: 24), [UInt8](repeating: 0xFF, count: 1_000),
      unknownVersion, unknownKind, Array(header.prefix(23)),
      FrameHeader(.events, count: 7, sequence: 1, incarnationOrSession: 1).frame(body: [1, 2, 3]),
      FrameHeader(.welcome, sequence: .max, incarnationOrSession: .max).frame(),
      FrameHeader(.stop).frame(), FrameHeader(.hello).frame(body: Array("{}".utf8)),
    ]
  }()

  private func expectHealth(_ topology: TopologyHarness) async throws {
    try await topology.send("source", Source.Event.go(count: 100))
    try await topology.expect("sink", Sink.State.counting(last: 100, count: 100, wrong: 0))
    let directory = try await topology.directory()
    #expect(directory.isRunning)
    #expect(directory.nodes.allSatisfy { $0.incarnation == 1 })
  }

  private func send(_ frames: [[UInt8]], to endpoint: String, as id: String? = nil) throws {
    let socket = try Socket(.dealer, in: Context())
    if let id { try socket.setRoutingID(id) }
    try socket.connect(endpoint)
    socket.setLinger(milliseconds: 5_000)
    for frame in frames { socket.sendPart(frame, more: false) }
    // A message of several parts, where one part is expected.
    socket.sendPart(frames[0], more: true)
    socket.sendPart(frames[1], more: false)
    socket.close()
  }

  @Test("Garbage at a node's inbox is counted and logged, even if sent under a pipe's name")
  func inbox() async throws {
    try await withTopology(yaml: Self.pair) { topology in
      let inbox = try await topology.status("sink").inbox
      try send(Self.frames, to: inbox)
      let count = UInt64(Self.frames.count)
      try await topology.expectStatus(of: "sink", "invalidFrames counted") {
        ($0.status?.invalidFrames ?? 0) >= count
      }
      try await topology.expectLog("sink", contains: "from a client")
      try await expectHealth(topology)
    }
  }

  @Test(
    "Garbage at the orchestrator's socket is counted and logged, even if sent under a node's name")
  func control() async throws {
    try await withTopology(yaml: Self.pair) { topology in
      try send(Self.frames, to: topology.control)
      #expect(try await topology.orchestrator.waitForOutput(containing: "on the control socket"))
      try await expectHealth(topology)
    }
  }

  @Test("Garbage at a node's feed is ignored")
  func feed() async throws {
    try await withTopology(yaml: Self.pair) { topology in
      let feed = try await topology.status("sink").feed
      let context = Context()
      let socket = try Socket(.subscriber, in: context)
      try socket.connect(feed)
      try socket.subscribe(to: [])
      let stranger = try Socket(.dealer, in: context)
      try stranger.connect(feed)
      for frame in Self.frames { stranger.sendPart(frame, more: false) }
      try await expectHealth(topology)
      stranger.close()
      socket.close()
    }
  }

  @Test("Every socket ignores bytes that are not ZeroMQ frames")
  func bytes() async throws {
    try await withTopology(yaml: Self.pair) { topology in
      let sink = try await topology.status("sink")
      for endpoint in [topology.control, sink.inbox, sink.feed] {
        for length in [1, 64, 100_000] {
          let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
          defer { close(descriptor) }
          #expect(Self.connect(descriptor, to: String(endpoint.dropFirst("ipc://".count))))
          let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 197 &+ 13) }
          let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
          #expect(Glibc.send(descriptor, bytes, length, flags) > 0)
        }
      }
      try await expectHealth(topology)
    }
  }

  private static func connect(_ descriptor: Int32, to path: String) -> Bool {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
  }

  @Test("A message over the size limit disconnects its sender and no other client")
  func oversized() async throws {
    try await withTopology(yaml: Self.pair) { topology in
      let inbox = try await topology.status("sink").inbox
      let huge = [UInt8](repeating: 1, count: Int(WireLimits.maximumMessageByteCount) + 1)
      try send([huge, Array("after".utf8)], to: inbox)
      try send([huge, Array("after".utf8)], to: topology.control)
      try await expectHealth(topology)
    }
  }
}
