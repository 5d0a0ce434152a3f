import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Nodes that listen for other hosts", .timed)
struct PipeOffHostTests {
  private static let pipe = "numbers"

  /// Returns the stand-in orchestrator of a source of numbers and a sink that counts them, with a
  /// pipe of capacity 100.
  private func orchestrator(
    in tool: CommandLineTool, sendsPeerListFirst: Bool = false
  ) throws -> StandInOrchestrator {
    let out = NodeConfiguration.Out(
      name: Self.pipe, port: "out", receiver: "sink", endpoint: "", capacity: 100, isDurable: true)
    let into = NodeConfiguration.In(
      name: Self.pipe, capacity: 100, onRefused: .record, isDurable: true)
    return try StandInOrchestrator(
      [
        "source": .init(
          content: .machine("Source", parameters: .object([:])), configuration: .init(outs: [out]),
          routingIDsByPeer: ["sink": []]),
        "sink": .init(
          content: .machine("Sink", parameters: .object(["work": .integer(300)])),
          configuration: .init(ins: [into]),
          routingIDsByPeer: ["source": [WireName.pipe(Self.pipe)]]),
      ], in: tool, sendsPeerListFirst: sendsPeerListFirst)
  }

  /// Returns a client of a node.
  private func client(
    of name: String, _ orchestrator: StandInOrchestrator
  ) throws -> KeyedPeer {
    try peer("me", of: name, as: orchestrator.client, orchestrator)
  }

  /// Returns a peer at a node's inbox, or without a name at its feed.
  private func peer(
    _ id: String?, of name: String, as pair: CurveKeyPair, _ orchestrator: StandInOrchestrator
  ) throws -> KeyedPeer {
    let process = try #require(orchestrator[name])
    let endpoints = try #require(process.hello?.endpoints)
    return try KeyedPeer(
      id, to: id == nil ? endpoints.feed : endpoints.inbox, of: process, as: pair,
      in: orchestrator.tool.directory)
  }

  /// Makes the source send numbers until ``halt(_:)``.
  private func start(_ client: KeyedPeer) async throws { try await go(NumberLoad.limit, client) }

  /// Stops the sending that ``start(_:)`` began.
  /// - Returns: The last number that the source has sent.
  private func halt(_ client: KeyedPeer) async throws -> Int {
    let last: Int? = try await poll(within: .seconds(20)) {
      let answer = try await client.ask(.request, Array(#""halt""#.utf8))
      // The source refuses the event while its pipe is full.
      guard answer.code == RequestReply.Code.accepted.rawValue else { return nil }
      return try JSONValue(parsing: answer.text.utf8)["state"]?["idle"]?["sent"]?.integer.map {
        Int($0)
      }
    }
    return try #require(last, "the source does not halt")
  }

  private func go(_ count: Int, _ client: KeyedPeer) async throws {
    let answer = try await client.ask(.request, Array(#"{"go":{"count":\#(count)}}"#.utf8))
    #expect(answer.code == RequestReply.Code.accepted.rawValue, "\(answer)")
  }

  /// Waits until all numbers have arrived, each once and in order.
  private func untilCounted(_ count: Int, _ orchestrator: StandInOrchestrator) async throws {
    let all = try JSONValue(
      encoding: Sink.State.counting(last: count, count: count, wrong: 0))
    try await orchestrator.until("sink") { $0.status?.state == all }
    let idle = try JSONValue(encoding: Source.State.idle(sent: count))
    try await orchestrator.until("source") { $0.status?.state == idle }
  }

  @Test(
    "A pipe to a restarted receiver delivers every event exactly once",
    arguments: [false, true])
  func replacedReceiver(sendsPeerListFirst: Bool) async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool, sendsPeerListFirst: sendsPeerListFirst)
      for name in ["source", "sink"] { try orchestrator.launch(name) }
      for name in ["source", "sink"] { try await orchestrator.untilRunning(name) }
      let former = try #require(orchestrator["sink"])
      #expect(former.hello?.endpoints?.inbox.hasPrefix("tcp://127.0.0.1:") == true)
      let client = try client(of: "source", orchestrator)
      try await start(client)
      try await orchestrator.until("sink") { ($0.status?.version ?? 0) > 500 }
      try await orchestrator.kill("sink")
      try orchestrator.launch("sink", incarnation: 2)
      try await orchestrator.until("sink") { ($0.status?.version ?? 0) > 1_000 }
      let count = try await halt(client)
      try await untilCounted(count, orchestrator)
      // An old list has no effect. Without peers, the source could not send to any node.
      orchestrator.sendPeerList(PeerList(peers: [], clients: []), to: "source", number: 1)
      // A list with an invalid key has no effect either, whatever its number.
      orchestrator.sendPeerList(PeerList(peers: [], clients: ["key"]), to: "source", number: 1_000)
      try await orchestrator.until("source") { $0.status?.invalidFrames == 1 }
      try await orchestrator.until("source") { $0.peerListNumber == orchestrator.lastList }
      try await go(500, client)
      try await untilCounted(count + 500, orchestrator)
    }
  }

  @Test(
    "A restarted sender's events are not applied twice")
  func replacedSender() async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      for name in ["source", "sink"] { try orchestrator.launch(name, at: "tcp://localhost:*") }
      for name in ["source", "sink"] { try await orchestrator.untilRunning(name) }
      try await go(3_000, client(of: "source", orchestrator))
      try await orchestrator.until("sink") { ($0.status?.version ?? 0) > 500 }
      try await orchestrator.kill("source")
      try orchestrator.launch("source", incarnation: 2)
      try await untilCounted(3_000, orchestrator)
    }
  }

  @Test("A pipe delivers all events in order when its connection is cut repeatedly")
  func cut() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = "source:send.after=cut%0.5"
      let orchestrator = try orchestrator(in: tool)
      for name in ["source", "sink"] { try orchestrator.launch(name) }
      for name in ["source", "sink"] { try await orchestrator.untilRunning(name) }
      try await go(500, client(of: "source", orchestrator))
      try await untilCounted(500, orchestrator)
      let log = try #require(orchestrator["source"]).program.errorText
      #expect(log.contains("failpoint send.after"), "\(log)")
    }
  }

  @Test("A former process's key, an unknown key, and a foreign name are rejected and logged")
  func intruders() async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      for name in ["source", "sink"] { try orchestrator.launch(name) }
      for name in ["source", "sink"] { try await orchestrator.untilRunning(name) }
      let former = try #require(orchestrator["source"])
      try await orchestrator.kill("source")
      try orchestrator.launch("source", incarnation: 2)
      try await orchestrator.untilRunning("source")
      let sink = try #require(orchestrator["sink"])
      let log = { sink.program.errorText }

      let revoked = try peer(WireName.pipe(Self.pipe), of: "sink", as: former.pair, orchestrator)
      try await revoked.exchangeFrames { _ in
        log().contains("its key '\(former.pair.publicKey)' was revoked")
      }
      let unknown = try CurveKeyPair.make()
      let stranger = try peer(WireName.pipe(Self.pipe), of: "sink", as: unknown, orchestrator)
      try await stranger.exchangeFrames { _ in
        log().contains("its key '\(unknown.publicKey)' is unknown")
      }
      let eavesdropper = try peer(nil, of: "sink", as: unknown, orchestrator)
      let impostor = try peer(
        WireName.pipe(Self.pipe), of: "sink", as: orchestrator.client, orchestrator)
      try await impostor.exchangeFrames {
        $0.disconnected > 0 && log().contains(" to 'pipe/\(Self.pipe)' (")
      }
      // The pipe's own sender and a client are still served.
      let monitor = try peer(nil, of: "sink", as: orchestrator.client, orchestrator)
      try await go(500, client(of: "source", orchestrator))
      try await untilCounted(500, orchestrator)
      try await monitor.exchangeFrames { $0.received > 0 }
      try await eavesdropper.exchangeFrames { $0.disconnected > 0 }
      for peer in [revoked, stranger, eavesdropper, impostor] { #expect(peer.received == 0) }
      for peer in [revoked, stranger, eavesdropper] { #expect(peer.connected == 0) }
    }
  }

  /// A reason why a node cannot be bound.
  struct RejectionCase: Sendable, CustomTestStringConvertible {
    var address: String
    var says: [String]
    var testDescription: String { address }
  }

  @Test(
    "A node that cannot bind its address reports the reason and a remedy in its hello",
    arguments: [
      RejectionCase(
        address: "tcp://192.0.2.1:*",
        says: ["'tcp://192.0.2.1:*'", "this host does not have this address", "places"]),
      RejectionCase(
        address: "tcp://nowhere.invalid:*", says: ["this host does not have this address"]),
      RejectionCase(address: "taken", says: ["another program uses this port"]),
      RejectionCase(
        address: "tcp:/127.0.0.1", says: ["the endpoint of a node must be like 'tcp://"]),
    ])
  func obstacle(_ obstacle: RejectionCase) async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      let address = obstacle.address == "taken" ? orchestrator.endpoint : obstacle.address
      let process = try orchestrator.launch("sink", at: address)
      #expect(
        try await process.program.waitForExit(within: .seconds(20)) == .exited(code: 1))
      let temporaryFailure = try #require(
        try await orchestrator.untilHello("sink").temporaryFailure)
      for text in obstacle.says { #expect(temporaryFailure.contains(text), "\(temporaryFailure)") }
      #expect(process.program.errorText.contains(temporaryFailure))
    }
  }

  @Test("A node refuses a key file that other users can read, and reports the reason")
  func openKeyFile() async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      let process = try orchestrator.launch("sink", mode: 0o644)
      #expect(
        try await process.program.waitForExit(within: .seconds(20)) == .exited(code: 1))
      #expect(process.program.errorText.contains("has mode 644"), "\(process.program.errorText)")
    }
  }
}
