import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A peer with a key pair that connects to a node, as a client or as an intruder. The test polls
/// its sockets.
final class KeyedPeer {
  private let context = Context(.few)
  private let socket: Socket
  private let monitor: ConnectionMonitor
  private let directory: TestDirectory
  /// The client number of the requests, so that no request is applied twice.
  private let number = UInt64.random(in: 1...UInt64.max)
  private var requests: UInt64 = 0
  private(set) var received = 0
  private(set) var connected = 0
  private(set) var disconnected = 0

  /// - Parameters:
  ///   - name: The routing id of the peer; `nil` for a subscriber of the feed.
  ///   - pair: The key pair of the peer.
  convenience init(
    _ name: String?, to endpoint: String, of process: StandInOrchestrator.Process,
    as pair: CurveKeyPair, in directory: TestDirectory
  ) throws {
    try self.init(
      name, at: PeerEndpoint(endpoint, key: process.pair.publicKey, own: pair), in: directory)
  }

  /// - Parameter peerEndpoint: The endpoint to connect to, with the keys for the connection.
  init(_ name: String?, at peerEndpoint: PeerEndpoint, in directory: TestDirectory) throws {
    self.directory = directory
    socket = try Socket(name == nil ? .subscriber : .dealer, in: context)
    monitor = try ConnectionMonitor(of: socket, in: context)
    if let name {
      try socket.setRoutingID(name)
    } else {
      try socket.subscribe(to: [])
    }
    try socket.connect(to: peerEndpoint)
  }

  deinit {
    monitor.close()
    socket.close()
  }

  /// Sends a request and waits for the reply.
  /// - Returns: The code and the body of the reply.
  func ask(
    _ kind: FrameKind, flags: UInt8 = 0, count: UInt32 = 0, _ body: [UInt8]
  ) async throws -> (code: UInt32, text: String) {
    requests += 1
    socket.send(
      FrameHeader(
        kind, flags: flags, count: count, sequence: requests, incarnationOrSession: number),
      body: body)
    let answer: (UInt32, String)? = try await poll(
      every: .milliseconds(20), within: .seconds(20), of: directory
    ) {
      var answer: (UInt32, String)?
      while socket.receive({ _, bytes in
        received += 1
        guard let header = try? FrameHeader(bytes), header.sequence == requests else { return }
        let body = bytes.dropFirst(FrameHeader.byteCount)
        answer = (header.count, String(decoding: body, as: UTF8.self))
      }) {}
      return answer
    }
    return try #require(answer)
  }

  /// Sends messages repeatedly, and polls the sockets, until a condition holds.
  func exchangeFrames(until isSatisfied: (KeyedPeer) -> Bool) async throws {
    let outcome: Bool? = try await poll(
      every: .milliseconds(20), within: .seconds(20), of: directory
    ) {
      socket.sendPart([], more: false)
      while socket.receive({ _, _ in received += 1 }) {}
      monitor.read { event in
        switch event {
        case .connected: connected += 1
        case .disconnected: disconnected += 1
        }
      }
      return isSatisfied(self) ? true : nil
    }
    try #require(outcome == true, "\(connected) \(disconnected) \(received)")
  }
}
