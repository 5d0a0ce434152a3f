import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A client that uses another process's routing id", .timed)
struct NamesakeTests {
  /// A client that has claimed a routing id and sends nothing.
  private struct Namesake {
    let socket: Socket
    let connections: ConnectionMonitor

    /// Creates a client that begins to connect.
    init(_ name: String, to endpoint: String) throws {
      let context = Context()
      socket = try Socket(.dealer, in: context)
      try socket.setRoutingID(name)
      connections = try ConnectionMonitor(of: socket, in: context)
      try socket.connect(endpoint)
    }

    /// Creates a client and waits until it is connected.
    init(_ name: String, at endpoint: String) async throws {
      try self.init(name, to: endpoint)
      try await connected()
    }

    func connected() async throws {
      let connections = connections
      let isConnected: Bool? = try await poll(within: .seconds(20)) {
        var isConnected = false
        connections.read { isConnected = isConnected || $0 == .connected }
        return isConnected ? true : nil
      }
      try #require(isConnected == true)
    }

    func leave() {
      socket.close()
      connections.socket.close()
    }
  }

  @Test(
    "A pipe delivers every event in order when a client claims the pipe's routing id")
  func pipe() async throws {
    let yaml = """
      topology: pair
      program: TestNodes
      nodes: { source: { machine: Source }, sink: { machine: Sink } }
      pipes: [{ from: source.out, to: sink.in, name: numbers }]
      """
    try await withTopology(yaml: yaml) { topology in
      try await topology.send("source", Source.Event.go(count: 10))
      try await topology.expect("sink", Sink.State.counting(last: 10, count: 10, wrong: 0))
      let namesake = try await Namesake("pipe/numbers", at: topology.status("sink").inbox)
      try await topology.send("source", Source.Event.go(count: 100))
      try await topology.expect(
        "sink", Sink.State.counting(last: 110, count: 110, wrong: 0))
      try await topology.expectLog("source", contains: "routing id, 'pipe/numbers'")
      #expect(try await topology.status("sink").status?.gaps == 0)
      namesake.leave()
    }
  }

  @Test("A coordinator commits again after a client has claimed the coordinator's routing id")
  func coordinator() async throws {
    try await withTopology(Parties.pair(durability: .process)) { topology in
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      let namesake = try await Namesake("sync/pair", at: topology.status("left").inbox)
      #expect(try await topology.meet(mode: .await(nil)).isCommitted)
      try await topology.expectLog("pair", contains: "routing id, 'sync/pair'")
      namesake.leave()
    }
  }

  @Test(
    "A coordinator commits again after a client under the same routing id has sent a forged epoch",
    arguments: [UInt64.max, UInt64(WallClock.nanoseconds / 1_000_000) - 60_000], [80, 82])
  func numbers(epoch: UInt64, kind: UInt8) async throws {
    try await withTopology(Parties.pair(durability: .process)) { topology in
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      let namesake = try await Namesake("sync/pair", at: topology.status("left").inbox)
      namesake.socket.sendPart([], more: false)
      let kind = try #require(FrameKind(rawValue: kind))
      let header = FrameHeader(kind, sequence: .max, incarnationOrSession: epoch)
      namesake.socket.sendPart(
        header.frame(body: Array("pair\n\"meet\"".utf8)), more: false)
      if epoch == .max { try await topology.expectLog("left", contains: "of epoch \(epoch)") }
      for _ in 1...3 { #expect(try await topology.meet(mode: .await(.seconds(120))).isCommitted) }
      #expect(try await topology.status("left").incarnation == 1)
      namesake.leave()
    }
  }

  @Test(
    "A coordinator commits even if a client claims the coordinator's routing id during its start")
  func newCoordinator() async throws {
    try await withTopology(Parties.pair()) { topology in
      #expect(try await topology.meet(mode: .await(.seconds(300))).isCommitted)
      // The node admits the connections that arrive during its pause in order: the coordinator,
      // then the namesake.
      let inbox = try await topology.status("left").inbox
      try await topology.pause("left")
      try await topology.kill("pair")
      try await topology.expectStatus(of: "pair", "its second start") {
        $0.incarnation == 2 && $0.isRunning
      }
      let namesake = try Namesake("sync/pair", to: inbox)
      try await topology.resume("left")
      try await namesake.connected()
      #expect(try await topology.meet(mode: .await(.seconds(120))).isCommitted)
      namesake.leave()
    }
  }

  @Test("A node is not considered hung when a client claims the node's routing id")
  func node() async throws {
    let yaml = """
      topology: one
      program: TestNodes
      nodes: { button: { machine: Button } }
      timeouts: { heartbeat: 20s }
      """
    try await withTopology(yaml: yaml) { topology in
      let namesake = try await Namesake("node/button", at: topology.control)
      try await topology.expectLog("button", contains: "routing id, 'node/button'")
      // The node's status reaches the orchestrator again.
      try await topology.send("button", Button.Event.press)
      let button = try await topology.expectStatus(of: "button", "its state") {
        $0.status?.state == ["pressed": ["times": 1]]
      }
      #expect(button.incarnation == 1)
      namesake.leave()
    }
  }
}
