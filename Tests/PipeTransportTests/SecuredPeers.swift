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
  struct Seen: Sendable {
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

    func publish(telling seen: Shared<Seen>) {
      publisher.send(FrameHeader(.ping))
      seen.change { $0.published += 1 }
      loop.schedule(after: .milliseconds(5), for: self) { $0.publish(telling: seen) }
    }

    func close() {
      monitor.close()
      for socket in [router, publisher] { socket.close() }
      loop.stop()
    }
  }

  private struct Made {
    var sockets: Sockets
    var endpoint: String
    var feed: String
  }

  let key: PublicKey
  let endpoint: String
  let feed: String
  private let seen: Shared<Seen>
  private let sockets: Sockets
  private let thread: LoopThread

  init() throws {
    let pair = try CurveKeyPair.make()
    let seen = Shared(Seen())
    let result = Shared<Result<Made, any Error>?>(nil)
    thread = LoopThread { loop in
      let made = Result { try Self.make(pair, on: loop, telling: seen) }
      if case .failure = made { loop.stop() }
      result.set(made)
    }
    let made = try result.now!.get()
    key = pair.publicKey
    self.seen = seen
    sockets = made.sockets
    endpoint = made.endpoint
    feed = made.feed
  }

  private static func make(
    _ pair: CurveKeyPair, on loop: PollLoop, telling seen: Shared<Seen>
  ) throws -> Made {
    let sockets = try Sockets(
      {
        try ZapHandler(in: $0, loop: loop).makeGate("server") { refusal in
          seen.change { $0.refusals.append(refusal) }
        }
      }, as: pair, on: loop)
    let (router, publisher) = (sockets.router, sockets.publisher)
    try router.bind("tcp://127.0.0.1:*")
    try publisher.bind("tcp://127.0.0.1:*")
    let made = Made(
      sockets: sockets, endpoint: router.lastEndpoint ?? "", feed: publisher.lastEndpoint ?? "")
    loop.add(router) { [unowned router] in
      while router.receive({ peer, bytes in
        seen.change { $0.messages[String(decoding: peer, as: UTF8.self), default: 0] += 1 }
        if let header = try? FrameHeader(bytes) { router.send(header, to: peer) }
      }) {}
    }
    let monitor = sockets.monitor
    loop.add(monitor.socket) { [unowned monitor] in
      monitor.read { event in
        if case .disconnected = event { seen.change { $0.disconnected += 1 } }
      }
    }
    loop.add(publisher) { [unowned publisher] in while publisher.receive({ _, _ in }) {} }
    sockets.publish(telling: seen)
    return made
  }

  var now: Seen { seen.now }

  func allow(_ key: PublicKey, as names: ZapPolicy.Names) {
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
final class SecuredCaller: Sendable {
  struct Seen: Sendable {
    /// The number of received messages.
    var received = 0
    /// The number of handshakes that have succeeded.
    var connected = 0
    /// The number of connections that have ended, during their handshake or after it.
    var disconnected = 0
  }

  // Used only on the loop's thread once it has been created.
  private final class Line: @unchecked Sendable {
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

    func speak() {
      if !isSilent { socket.send(FrameHeader(.ping)) }
      loop.schedule(after: .milliseconds(5), for: self) { $0.speak() }
    }

    func fallSilent() { isSilent = true }

    func close() {
      monitor.close()
      socket.close()
      loop.stop()
    }
  }

  private let seen: Shared<Seen>
  private let line: Line
  private let thread: LoopThread

  /// - Parameters:
  ///   - name: Its routing id, empty for one that libzmq makes, or `nil` for a SUB.
  ///   - pair: Its key pair, or `nil` to connect without a key.
  init(
    _ name: String?, to endpoint: String, key: PublicKey, as pair: CurveKeyPair?
  ) throws {
    let seen = Shared(Seen())
    let result = Shared<Result<Line, any Error>?>(nil)
    thread = LoopThread { loop in
      let made = Result {
        let line = try Line(name == nil ? .subscriber : .dealer, on: loop)
        if let name {
          if !name.isEmpty { try line.socket.setRoutingID(name) }
        } else {
          try line.socket.subscribe(to: [])
        }
        if let pair {
          try line.socket.connect(endpoint, to: key, as: pair)
        } else {
          try line.socket.connect(endpoint)
        }
        let (socket, monitor) = (line.socket, line.monitor)
        loop.add(socket) { [unowned socket] in
          while socket.receive({ _, _ in seen.change { $0.received += 1 } }) {}
        }
        loop.add(monitor.socket) { [unowned monitor] in
          monitor.read { event in
            seen.change { seen in
              switch event {
              case .connected: seen.connected += 1
              case .disconnected: seen.disconnected += 1
              }
            }
          }
        }
        if name != nil { line.speak() }
        return line
      }
      if case .failure = made { loop.stop() }
      result.set(made)
    }
    self.seen = seen
    line = try result.now!.get()
  }

  var now: Seen { seen.now }

  /// Stops sending.
  func fallSilent() { thread.handle.post { [line] in line.fallSilent() } }

  deinit {
    thread.handle.post { [line] in line.close() }
    thread.join()
  }
}
