import PipeTransport
import TestSupport
import Testing

@Suite("Connections that a failpoint cuts")
struct LocalConnectionsTests {
  /// The kind of endpoint to which a socket is bound.
  enum Place: CaseIterable { case file, network }

  @Test(
    "A connection that is cut is opened again, and other connections stay open",
    arguments: Place.allCases)
  func cut(at place: Place) throws {
    let directory = try TemporaryDirectory()
    let (context, loop) = (Context(.few), PollLoop())
    loop.schedule(after: .seconds(20)) { [unowned loop] in loop.stop() }
    let inboxes = try (0..<2).map { number in
      let socket = try Socket(.router, in: context)
      try socket.bind(place == .file ? "ipc://\(directory.path)/\(number)" : "tcp://127.0.0.1:*")
      return socket
    }
    let endpoints = try inboxes.map { try #require($0.lastEndpoint) }
    let router = try ConnectingRouter(as: "sync/LIFT", in: context)
    var events: [[ConnectionMonitor.Event]] = [[], []]
    var cut = 0
    loop.add(router.monitorSocket) { [unowned loop] in
      router.readConnectionEvents { peer, event in events[peer].append(event) }
      if cut == 0, events == [[.connected], [.connected]] {
        cut = LocalConnections.cut(endpoints[0])
      }
      if events[0].count == 3 { loop.stop() }
    }
    for (peer, endpoint) in endpoints.enumerated() {
      try router.connect(peer, to: PeerEndpoint(endpoint))
    }
    loop.run()
    // Both ends belong to this process, and one end may have noticed the other's cut already.
    #expect((1...2).contains(cut))
    #expect(events == [[.connected, .disconnected, .connected], [.connected]])
    #expect(LocalConnections.cut("tcp://127.0.0.1:1") == 0)
    router.close(linger: 0)
    for inbox in inboxes { inbox.close() }
  }
}
