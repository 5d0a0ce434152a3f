import PipeTransport
import PipeWire
import TestSupport
import Testing

@Suite("A socket that connects to many peers")
struct ConnectingRouterTests {
  /// A peer that answers each frame with its own number, and records the frames.
  private final class Inbox {
    let endpoint: String
    let socket: Socket
    private(set) var names: [String] = []
    private(set) var probes = 0

    init(_ number: UInt64, in folder: String, context: Context, loop: PollLoop) throws {
      endpoint = "ipc://\(folder)/\(number).in"
      socket = try Socket(.router, in: context)
      try socket.bindKeepingFile(endpoint)
      loop.add(socket, for: self) { inbox in
        while inbox.socket.receive({ peer, bytes in
          inbox.names.append(String(decoding: peer, as: UTF8.self))
          if bytes.isEmpty { inbox.probes += 1 }
          inbox.socket.send(FrameHeader(.ping, incarnationOrSession: number), to: peer)
        }) {}
      }
    }
  }

  /// The messages and events of a router, until the test has seen enough.
  private final class ReceivedMessages {
    let router: ConnectingRouter
    var messages: [(peer: Int, number: UInt64)] = []
    var events: [(peer: Int, event: ConnectionMonitor.Event)] = []

    init(
      _ router: ConnectingRouter, loop: PollLoop,
      onChange: @escaping (ReceivedMessages) throws -> Bool
    ) {
      self.router = router
      func pollMessages() {
        do {
          if try onChange(self) { loop.stop() }
        } catch {
          Issue.record(error)
          loop.stop()
        }
      }
      loop.add(router.socket, for: self) { receivedMessages in
        while receivedMessages.router.receive({ peer, bytes in
          receivedMessages.messages.append(
            (peer, (try? FrameHeader(bytes))?.incarnationOrSession ?? 0))
        }) {}
        pollMessages()
      }
      loop.add(router.monitorSocket, for: self) { receivedMessages in
        receivedMessages.router.readConnectionEvents { receivedMessages.events.append(($0, $1)) }
        pollMessages()
      }
    }
  }

  @Test("A router identifies its peers by number, and has the same name for all of them")
  func peers() throws {
    try withLoop { folder, context, loop in
      let inboxes = try (0..<3).map {
        try Inbox(UInt64($0) + 10, in: folder, context: context, loop: loop)
      }
      let router = try ConnectingRouter(as: "sync/LIFT", in: context)
      let receivedMessages = ReceivedMessages(router, loop: loop) {
        $0.messages.count == 6 && $0.events.count == 3
      }
      for (peer, inbox) in inboxes.enumerated() {
        try router.connect(peer, to: PeerEndpoint(inbox.endpoint))
        router.sendEmpty(to: peer)
        router.send(FrameHeader(.ping), to: peer)
      }
      #expect(router.send(FrameHeader(.ping), to: 3) == .unroutable)
      loop.run()
      for peer in 0..<3 {
        #expect(
          receivedMessages.messages.filter { $0.peer == peer }.map(\.number)
            == [10, 10].map { $0 + UInt64(peer) })
        #expect(receivedMessages.events.filter { $0.peer == peer }.map(\.event) == [.connected])
        #expect(inboxes[peer].names == ["sync/LIFT", "sync/LIFT"])
        #expect(inboxes[peer].probes == 1)
      }
      router.close(linger: 0)
    }
  }

  @Test("A router reconnects to a peer at once, and ignores messages of the former connection")
  func again() throws {
    try withLoop { folder, context, loop in
      let inbox = try Inbox(7, in: folder, context: context, loop: loop)
      let router = try ConnectingRouter(as: "sync/LIFT", in: context)
      var count = 0
      let receivedMessages = ReceivedMessages(router, loop: loop) { receivedMessages in
        guard receivedMessages.messages.count > count else { return false }
        count = receivedMessages.messages.count
        if count == 50 { return true }
        // The first answer is in flight, or has arrived and not been read yet.
        router.send(FrameHeader(.ping), to: 0)
        try router.connect(0, to: PeerEndpoint(inbox.endpoint))
        router.send(FrameHeader(.ping), to: 0)
        return false
      }
      try router.connect(0, to: PeerEndpoint(inbox.endpoint))
      router.send(FrameHeader(.ping), to: 0)
      loop.run()
      #expect(receivedMessages.messages.count == 50)
      #expect(receivedMessages.messages.allSatisfy { $0.peer == 0 && $0.number == 7 })
      // When another connection has claimed the name, the remaining messages of the former
      // connection arrive under a name that libzmq made.
      #expect(Set(inbox.names.filter { $0.utf8.first != 0 }) == ["sync/LIFT"])
      router.close(linger: 0)
    }
  }

  @Test("A router reports which of its peers has disconnected")
  func gone() throws {
    try withLoop { folder, context, loop in
      let inboxes = try (0..<2).map {
        try Inbox(UInt64($0), in: folder, context: context, loop: loop)
      }
      let router = try ConnectingRouter(as: "sync/LIFT", in: context)
      let receivedMessages = ReceivedMessages(router, loop: loop) { receivedMessages in
        if receivedMessages.events.count == 2 { inboxes[1].socket.close() }
        return receivedMessages.events.count == 3
      }
      for (peer, inbox) in inboxes.enumerated() {
        try router.connect(peer, to: PeerEndpoint(inbox.endpoint))
      }
      loop.run()
      #expect(receivedMessages.events.last?.peer == 1)
      #expect(receivedMessages.events.last?.event == .disconnected)
      router.close(linger: 0)
    }
  }
}

/// Runs a loop, which ends on timeout if the expected events do not come.
private func withLoop(_ body: (_ folder: String, Context, PollLoop) throws -> Void) throws {
  let directory = try TemporaryDirectory()
  let loop = PollLoop()
  loop.schedule(after: .seconds(20)) { [unowned loop] in loop.stop() }
  try body(directory.path, Context(), loop)
}
