import PipeRuntimeTestKit
import PipeTransport
import PipeWire
import TestTraits
import Testing

@Suite("Sockets that accept connections from other hosts", .stallLimit(.seconds(60)))
struct SecuredSocketTests {
  private let server: SecuredServer
  private let pair: CurveKeyPair

  init() throws {
    server = try SecuredServer()
    pair = try CurveKeyPair.make()
  }

  /// Returns a caller with this key pair.
  private func caller(
    _ name: String, as pair: CurveKeyPair?, to key: PublicKey? = nil
  ) throws -> SecuredClient {
    try SecuredClient(name, to: server.endpoint, key: key ?? server.key, as: pair)
  }

  /// Returns a caller whose key is admitted.
  private func member(_ name: String) throws -> SecuredClient {
    let pair = try CurveKeyPair.make()
    server.allow(pair.publicKey, as: .only(name))
    return try caller(name, as: pair)
  }

  /// Waits until the condition holds, at most for as long as the server takes to publish as much as
  /// in 20 s on an idle machine. Rejected peers reconnect all the time, so their process never
  /// comes to rest.
  private func until(_ isSatisfied: () -> Bool) async throws {
    let end = server.now.published + 4_000
    let isSoInTime = try await poll(within: .seconds(30)) {
      if isSatisfied() { true } else { server.now.published > end ? false : nil }
    }
    try #require(isSoInTime == true)
  }

  /// Waits until a caller has received more messages.
  private func untilServed(_ caller: SecuredClient) async throws {
    let before = caller.now.received
    try await until { caller.now.received > before + 2 }
  }

  @Test("A peer with an admitted key is served under its own name")
  func allowed() async throws {
    server.allow(pair.publicKey, as: .only("pipe/a"))
    let caller = try caller("pipe/a", as: pair)
    try await untilServed(caller)
    #expect(Array(server.now.messages.keys) == ["pipe/a"])
    #expect(server.now.refusals.isEmpty)
  }

  /// A peer that must be rejected.
  enum Intruder: CaseIterable { case withoutKey, toAnotherServer, unknown, revoked }

  @Test(
    "A peer without a key, or with a wrong, unknown or revoked key, receives nothing",
    arguments: Intruder.allCases)
  func intruders(_ intruder: Intruder) async throws {
    let wrong = try CurveKeyPair.make().publicKey
    if intruder == .toAnotherServer { server.allow(pair.publicKey, as: .only("intruder")) }
    if intruder == .revoked { server.revoke(pair.publicKey) }
    let member = try member("pipe/a")
    let caller = try caller(
      "intruder", as: intruder == .withoutKey ? nil : pair,
      to: intruder == .toAnotherServer ? wrong : nil)
    try await until { caller.now.disconnected > 0 }
    try await untilServed(member)
    #expect(caller.now.connected == 0)
    #expect(caller.now.received == 0)
    #expect(Array(server.now.messages.keys) == ["pipe/a"])
    let reasons = Set(server.now.refusals.map(\.reason))
    switch intruder {
    case .unknown: #expect(reasons == [.unknownKey])
    case .revoked: #expect(reasons == [.revokedKey])
    case .withoutKey, .toAnotherServer: #expect(reasons.isEmpty)
    }
    if let refusal = server.now.refusals.first {
      #expect(refusal.key == pair.publicKey && refusal.address == "127.0.0.1")
      #expect("\(refusal)".contains("its key '\(pair.publicKey)'"))
    }
  }

  @Test("A peer that was rejected for an unknown key reconnects as soon as the key is known")
  func later() async throws {
    let caller = try caller("pipe/a", as: pair)
    try await until { !server.now.refusals.isEmpty }
    server.allow(pair.publicKey, as: .only("pipe/a"))
    try await untilServed(caller)
  }

  @Test("A silent connection with a revoked key is closed, and other connections stay open")
  func revoked() async throws {
    server.allow(pair.publicKey, as: .only("pipe/a"))
    let caller = try caller("pipe/a", as: pair)
    let other = try member("pipe/b")
    try await untilServed(caller)
    try await untilServed(other)
    caller.stopSending()
    #expect(caller.now.disconnected == 0)
    server.revoke(pair.publicKey)
    try await until { caller.now.disconnected > 0 }
    try await until { server.now.refusals.contains { $0.reason == .revokedKey } }
    try await untilServed(other)
    #expect(caller.now.connected == 1)
    #expect(other.now.disconnected == 0)
  }

  @Test("A peer that uses another peer's name is disconnected, and the owner gets its name back")
  func foreignName() async throws {
    let owner = try member("pipe/a")
    try await untilServed(owner)
    let before = server.now.messages
    server.allow(pair.publicKey, as: .only("pipe/b"))
    let impostor = try caller("pipe/a", as: pair)
    try await until {
      server.now.refusals.contains {
        $0.reason == .foreignName("pipe/a") && $0.key == pair.publicKey
      }
    }
    impostor.stopSending()
    try await until { impostor.now.disconnected > 0 }
    try await untilServed(owner)
    #expect(impostor.now.received == 0)
    #expect(Array(before.keys) == ["pipe/a"] && Array(server.now.messages.keys) == ["pipe/a"])
    let refusal = try #require(server.now.refusals.first)
    #expect("\(refusal)".contains("does not belong to 'pipe/a'"))
  }

  @Test("The error for a peer without a routing id does not show the id that libzmq assigned")
  func nameless() async throws {
    server.allow(pair.publicKey, as: .only("pipe/b"))
    let nameless = try caller("", as: pair)
    try await until { server.now.refusals.contains { $0.reason == .foreignName("") } }
    #expect(nameless.now.received == 0)
    let refusal = try #require(server.now.refusals.first)
    #expect("\(refusal)".contains("belongs to a name, and the peer has no name"))
  }

  @Test("A client can use any name that does not belong to a pipe, coordinator or node")
  func client() async throws {
    server.allow(pair.publicKey, as: .clientNames)
    let caller = try caller("me", as: pair)
    try await untilServed(caller)
    for name in ["pipe/a", "sync/b", "node/c"] {
      let impostor = try self.caller(name, as: pair)
      try await until { server.now.refusals.contains { $0.reason == .foreignName(name) } }
      #expect(impostor.now.received == 0)
    }
    #expect(Array(server.now.messages.keys) == ["me"])
  }

  @Test("Admitted peers receive a feed until their key is revoked")
  func feed() async throws {
    let stranger = try SecuredClient(
      nil, to: server.feed, key: server.key, as: try CurveKeyPair.make())
    let naked = try SecuredClient(nil, to: server.feed, key: server.key, as: nil)
    server.allow(pair.publicKey, as: .clientNames)
    let monitor = try SecuredClient(nil, to: server.feed, key: server.key, as: pair)
    try await untilServed(monitor)
    server.revoke(pair.publicKey)
    try await until {
      monitor.now.disconnected > 0 && stranger.now.disconnected > 0 && naked.now.disconnected > 0
    }
    #expect(monitor.now.connected == 1)
    #expect(stranger.now.received == 0 && naked.now.received == 0)
  }

  @Test("A stalled network is detected at both ends, and used again when it recovers")
  func stalledNetwork() async throws {
    let relay = StallingRelay(to: server.endpoint)
    server.allow(pair.publicKey, as: .only("pipe/a"))
    let caller = try SecuredClient("pipe/a", to: relay.endpoint, key: server.key, as: pair)
    try await untilServed(caller)
    #expect(caller.now.disconnected == 0 && server.now.disconnected == 0)
    relay.stall()
    try await until { caller.now.disconnected > 0 && server.now.disconnected > 0 }
    relay.resume()
    try await untilServed(caller)
    #expect(Array(server.now.messages.keys) == ["pipe/a"])
  }

  @Test("A node in the same process requires no key")
  func neighbour() throws {
    let loop = PollLoop()
    let context = Context(.few)
    let gate = try ZapHandler(in: context, loop: loop).makeGate("door") { _ in }
    let router = try Socket(.router, in: context)
    try gate.secure(router, as: pair)
    try router.bind("inproc://inbox")
    let dealer = try Socket(.dealer, in: context)
    try dealer.setRoutingID("sync/lift")
    try dealer.connect("inproc://inbox")
    dealer.send(FrameHeader(.ping))
    var peers: [[UInt8]] = []
    while router.receive({ peer, _ in peers.append(peer) }) {}
    #expect(peers == [Array("sync/lift".utf8)])
    for socket in [dealer, router] { socket.close() }
  }
}
