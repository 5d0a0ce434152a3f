import PipeSupport
import PipeTransport
import PipeWire

/// A value that the thread of a loop sets and a test reads.
final class Shared<Value: Sendable>: Sendable {
  private let value: Locked<Value>

  init(_ value: Value) { self.value = Locked(value) }

  var now: Value { value.withLock { $0 } }

  func set(_ new: Value) { value.withLock { $0 = new } }

  func change(_ body: (inout Value) -> Void) { value.withLock { body(&$0) } }
}

/// A ROUTER that echoes messages and an XPUB that publishes continuously, bound for other hosts, on
/// a loop of their own.
final class SecuredServer: Sendable {
  struct Observations: Sendable {
    /// The number of messages under each name.
    var messages: [String: Int] = [:]
    var refusals: [PeerRefusal] = []
    /// The number of published messages: a measure of time that is slow where the machine is slow.
    var published = 0
    /// The number of the ROUTER's connections that have ended.
    var disconnected = 0
  }

  // Used only on the loop's thread once they have been created.
  private final class Sockets: @unchecked Sendable {
    let context = Context(.few)
    let router: Socket
    let publisher: Socket
    let gate: PeerGate
    let monitor: ConnectionMonitor
    private let loop: PollLoop

    init(_ handler: (Context) throws -> PeerGate, as pair: CurveKeyPair, on loop: PollLoop) throws {
      self.loop = loop
      gate = try handler(context)
      router = try Socket(.router, in: context)
      publisher = try Socket(.publisher, in: context)
      for socket in [router, publisher] { try gate.secure(socket, as: pair) }
      monitor = try ConnectionMonitor(of: router, in: context)
    }

    func publish(recordingTo observations: Shared<Observations>) {
      publisher.send(FrameHeader(.ping))
      observations.change { $0.published += 1 }
      loop.schedule(after: .milliseconds(5), for: self) { $0.publish(recordingTo: observations) }
    }

    func close() {
      monitor.close()
      for socket in [router, publisher] { socket.close() }
      loop.stop()
    }
  }

  private struct Setup {
    var sockets: Sockets
    var endpoint: String
    var feed: String
  }

  let key: PublicKey
  let endpoint: String
  let feed: String
  private let observations: Shared<Observations>
  private let sockets: Sockets
  private let thread: LoopThread

  init() throws {
    let pair = try CurveKeyPair.make()
    let observations = Shared(Observations())
    let result = Shared<Result<Setup, any Error>?>(nil)
    thread = LoopThread { loop in
      let setup = Result { try Self.make(pair, on: loop, recordingTo: observations) }
      if case .failure = setup { loop.stop() }
      result.set(setup)
    }
    let setup = try result.now!.get()
    key = pair.publicKey
    self.observations = observations
    sockets = setup.sockets
    endpoint = setup.endpoint
    feed = setup.feed
  }

  private static func make(
    _ pair: CurveKeyPair, on loop: PollLoop, recordingTo observations: Shared<Observations>
  ) throws -> Setup {
    let sockets = try Sockets(
      {
        try ZapHandler(in: $0, loop: loop).makeGate("server") { refusal in
          observations.change { $0.refusals.append(refusal) }
        }
      }, as: pair, on: loop)
    let (router, publisher) = (sockets.router, sockets.publisher)
    try router.bind("tcp://127.0.0.1:*")
    try publisher.bind("tcp://127.0.0.1:*")
    let setup = Setup(
      sockets: sockets, endpoint: router.lastEndpoint ?? "", feed: publisher.lastEndpoint ?? "")
    loop.add(router) { [unowned router] in
      while router.receive({ peer, bytes in
        observations.change { $0.messages[String(decoding: peer, as: UTF8.self), default: 0] += 1 }
        if let header = try? FrameHeader(bytes) { router.send(header, to: peer) }
      }) {}
    }
    let monitor = sockets.monitor
    loop.add(monitor.socket) { [unowned monitor] in
      monitor.read { event in
        if case .disconnected = event { observations.change { $0.disconnected += 1 } }
      }
    }
    loop.add(publisher) { [unowned publisher] in while publisher.receive({ _, _ in }) {} }
    sockets.publish(recordingTo: observations)
    return setup
  }

  var now: Observations { observations.now }

  func allow(_ key: PublicKey, as names: ZapPolicy.AllowedRoutingIDs) {
    thread.handle.post { [sockets] in sockets.gate.allow(key, as: names) }
  }

  func revoke(_ key: PublicKey) {
    thread.handle.post { [sockets] in sockets.gate.revoke(key) }
  }

  deinit {
    thread.handle.post { [sockets] in sockets.close() }
    thread.join()
  }
}

/// A DEALER that sends continuously, or a SUB that listens, on a loop of its own.
final class SecuredClient: Sendable {
  struct Observations: Sendable {
    /// The number of received messages.
    var received = 0
    /// The number of handshakes that have succeeded.
    var connected = 0
    /// The number of connections that have ended, during their handshake or after it.
    var disconnected = 0
  }

  // Used only on the loop's thread once it has been created.
  private final class ConnectionSockets: @unchecked Sendable {
    let context = Context(.few)
    let socket: Socket
    let monitor: ConnectionMonitor
    private let loop: PollLoop
    private var isSilent = false

    init(_ kind: Socket.Kind, on loop: PollLoop) throws {
      self.loop = loop
      socket = try Socket(kind, in: context)
      monitor = try ConnectionMonitor(of: socket, in: context)
    }

    func sendPings() {
      if !isSilent { socket.send(FrameHeader(.ping)) }
      loop.schedule(after: .milliseconds(5), for: self) { $0.sendPings() }
    }

    func stopSending() { isSilent = true }

    func close() {
      monitor.close()
      socket.close()
      loop.stop()
    }
  }

  private let observations: Shared<Observations>
  private let connectionSockets: ConnectionSockets
  private let thread: LoopThread

  /// - Parameters:
  ///   - name: Its routing id, empty for one that libzmq makes, or `nil` for a SUB.
  ///   - pair: Its key pair, or `nil` to connect without a key.
  init(
    _ name: String?, to endpoint: String, key: PublicKey, as pair: CurveKeyPair?
  ) throws {
    let observations = Shared(Observations())
    let result = Shared<Result<ConnectionSockets, any Error>?>(nil)
    thread = LoopThread { loop in
      let setup = Result {
        let connectionSockets = try ConnectionSockets(name == nil ? .subscriber : .dealer, on: loop)
        if let name {
          if !name.isEmpty { try connectionSockets.socket.setRoutingID(name) }
        } else {
          try connectionSockets.socket.subscribe(to: [])
        }
        if let pair {
          try connectionSockets.socket.connect(endpoint, to: key, as: pair)
        } else {
          try connectionSockets.socket.connect(endpoint)
        }
        let (socket, monitor) = (connectionSockets.socket, connectionSockets.monitor)
        loop.add(socket) { [unowned socket] in
          while socket.receive({ _, _ in observations.change { $0.received += 1 } }) {}
        }
        loop.add(monitor.socket) { [unowned monitor] in
          monitor.read { event in
            observations.change { observations in
              switch event {
              case .connected: observations.connected += 1
              case .disconnected: observations.disconnected += 1
              }
            }
          }
        }
        if name != nil { connectionSockets.sendPings() }
        return connectionSockets
      }
      if case .failure = setup { loop.stop() }
      result.set(setup)
    }
    self.observations = observations
    connectionSockets = try result.now!.get()
  }

  var now: Observations { observations.now }

  /// Stops sending.
  func stopSending() {
    thread.handle.post { [connectionSockets] in connectionSockets.stopSending() }
  }

  deinit {
    thread.handle.post { [connectionSockets] in connectionSockets.close() }
    thread.join()
  }
}
