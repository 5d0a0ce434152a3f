import PipeSupport
import PipeTransport
import PipeWire

/// A node's connection to its orchestrator: reads what that says, tells it what the node has to say, and
/// connects anew where its pings have stopped.
final class ControlLink {
  private let socket: Socket
  private let place: PeerPlace
  /// The node's routing id there.
  private let name: String
  private let incarnation: UInt64
  private let loop: PollLoop
  private let log: NodeLog
  /// How long what is said last is sent.
  private let linger: Duration
  private var pings: PingWatch?
  private var isConnected = false
  private var isClosed = false
  private(set) var garbage: UInt64 = 0
  /// Called with each frame that the orchestrator sends.
  var onFrame: ((FrameHeader, UnsafeRawBufferPointer) throws -> Void)?
  /// Called where a lease goes on, with when that was asked for.
  var onRenewal: ((_ asked: UInt64) -> Void)?
  /// Called when all that has come was read.
  var onRest: (() -> Void)?
  /// Called on a new connection, where the node is to say hello.
  var onReconnection: (() -> Void)?

  /// How long it is to an orchestrator's first ping, at most.
  private static let firstPingTimeout: Duration = .seconds(1)
  private static let linger: Duration = .milliseconds(300)
  /// A handshake with keys may still be under way, over some distance.
  private static let lingerOffHost: Duration = .seconds(1)

  init(
    _ arguments: NodeArguments, keys: NodeKeys?, context: Context, loop: PollLoop, log: NodeLog
  ) throws(TransportError) {
    place =
      if let keys {
        PeerPlace(arguments.control, key: keys.control, own: keys.pair)
      } else {
        PeerPlace(arguments.control)
      }
    linger = keys == nil ? Self.linger : Self.lingerOffHost
    name = WireName.node(arguments.node)
    incarnation = arguments.incarnation
    self.loop = loop
    self.log = log
    socket = try Socket(.dealer, in: context)
    try socket.setRoutingID(name)
  }

  var endpoint: String { place.endpoint }

  func connect() throws(TransportError) {
    guard !isConnected else { return }
    try socket.connect(to: place)
    isConnected = true
  }

  /// Reads from now on.
  func run() { loop.add(socket, for: self) { $0.read() } }

  func say(_ kind: FrameKind, sequence: UInt64 = 0, count: UInt32 = 0, _ body: [UInt8] = []) {
    socket.send(
      FrameHeader(kind, count: count, sequence: sequence, number: incarnation), body: body)
  }

  /// Reads what has come.
  func read() {
    while socket.receive({ _, bytes in
      do {
        let header = try FrameHeader(bytes)
        if header.kind == .renewed {
          onRenewal?(header.sequence)
          return
        }
        try onFrame?(header, UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...]))
      } catch {
        garbage += 1
        log.garbage(error, from: "the orchestrator", count: garbage)
      }
    }) {}
    onRest?()
  }

  // MARK: Pings

  /// Pings come from now on.
  func expectPings() { expectPing(within: Self.firstPingTimeout) }

  /// - Parameter interval: How long it is to the next ping, at most.
  func expectPing(within interval: Duration) {
    let isWatched = pings != nil
    var watch = pings ?? PingWatch()
    watch.heard(at: BootClock.nanoseconds, interval: interval)
    pings = watch
    if !isWatched { lookForPing() }
  }

  private func lookForPing() {
    guard let due = pings?.due else { return }
    let wait = Duration.nanoseconds(max(0, due - BootClock.nanoseconds))
    loop.schedule(after: wait, for: self) { link in
      if link.pings?.isSilent(at: BootClock.nanoseconds) == true { link.reconnect() }
      link.lookForPing()
    }
  }

  /// Makes a new connection, which takes this node's name back from who else has used it.
  private func reconnect() {
    guard !isClosed else { return }
    log.silence(of: "the orchestrator", at: place.endpoint, as: name, count: pings?.silences ?? 0)
    socket.disconnect(place.endpoint)
    isConnected = false
    try? connect()
    onReconnection?()
  }

  // MARK: The end

  /// Says why the node ends by itself, or nothing; nothing more is said after that.
  func sayGoodbye(because reason: String, code: Int32) {
    isClosed = true
    say(.stopped, count: UInt32(code), Array(reason.utf8))
  }

  /// What is said goes out within the socket's linger.
  func close() { socket.close(lingering: linger) }
}

/// Tells when an orchestrator's pings have stopped.
package struct PingWatch: Sendable {
  /// When the next one is missed. Unit: nanoseconds of ``BootClock``.
  package private(set) var due: Int64 = 0
  /// How often one was missed since the last came.
  package private(set) var silences: UInt64 = 0
  private var patience: Int64 = 0

  /// The longest pause between two looks.
  private static let longest: Int64 = 30_000_000_000

  /// A look that is later than this was held up itself: a ping may have come and not be read yet.
  private static let lateness: Int64 = 500_000_000

  package init() {}

  /// A ping has come, which says how long it is to the next.
  package mutating func heard(at now: Int64, interval: Duration) {
    // Before the orchestrator finds the node hung, which takes five intervals.
    patience = interval.clampedNanoseconds / 2 * 5
    silences = 0
    due = now + patience
  }

  /// Whether one is missed. The pauses grow from one to the next.
  package mutating func isSilent(at now: Int64) -> Bool {
    guard now >= due else { return false }
    guard now - due <= Self.lateness else {
      due = now + Self.lateness
      return false
    }
    silences += 1
    patience = min(2 * patience, max(patience, Self.longest))
    due = now + patience
    return true
  }
}
