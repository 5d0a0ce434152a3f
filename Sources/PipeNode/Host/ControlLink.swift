import PipeSupport
import PipeTransport
import PipeWire

/// A node's connection to its orchestrator. It reads the orchestrator's frames, sends the node's
/// frames, and reconnects when the pings have stopped.
final class ControlLink {
  private let socket: Socket
  private let place: PeerEndpoint
  /// The node's routing id at the orchestrator's socket.
  private let name: String
  private let incarnation: UInt64
  private let loop: PollLoop
  private let log: NodeLog
  /// The linger period for the last frames.
  private let linger: Duration
  private var pings: PingWatch?
  private var isConnected = false
  private var isClosed = false
  private(set) var invalidFrames: UInt64 = 0
  /// Called with each frame that the orchestrator sends.
  var onFrame: ((FrameHeader, UnsafeRawBufferPointer) throws -> Void)?
  /// Called when the lease is renewed, with the time at which the process asked for that.
  var onRenewal: ((_ asked: UInt64) -> Void)?
  /// Called when all pending frames have been read.
  var onRest: (() -> Void)?
  /// Called on a new connection, on which the node must say hello.
  var onReconnection: (() -> Void)?

  /// The longest time until an orchestrator's first ping.
  private static let firstPingTimeout: Duration = .seconds(1)
  private static let linger: Duration = .milliseconds(300)
  /// A handshake with keys to a distant host may still be in progress.
  private static let lingerOffHost: Duration = .seconds(1)

  init(
    _ arguments: NodeArguments, keys: NodeKeys?, context: Context, loop: PollLoop, log: NodeLog
  ) throws(TransportError) {
    place =
      if let keys {
        PeerEndpoint(arguments.control, key: keys.control, own: keys.pair)
      } else {
        PeerEndpoint(arguments.control)
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

  /// Starts reading from the loop.
  func run() { loop.add(socket, for: self) { $0.read() } }

  func say(_ kind: FrameKind, sequence: UInt64 = 0, count: UInt32 = 0, _ body: [UInt8] = []) {
    socket.send(
      FrameHeader(kind, count: count, sequence: sequence, number: incarnation), body: body)
  }

  /// Reads all pending frames.
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
        invalidFrames += 1
        log.reportInvalidFrame(error, from: "the orchestrator", count: invalidFrames)
      }
    }) {}
    onRest?()
  }

  // MARK: Pings

  /// Starts to expect pings.
  func expectPings() { expectPing(within: Self.firstPingTimeout) }

  /// - Parameter interval: The longest time until the next ping.
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

  /// Opens a new connection, which reclaims this node's routing id from another program that has
  /// used it.
  private func reconnect() {
    guard !isClosed else { return }
    log.silence(of: "the orchestrator", at: place.endpoint, as: name, count: pings?.silences ?? 0)
    socket.disconnect(place.endpoint)
    isConnected = false
    try? connect()
    onReconnection?()
  }

  // MARK: The end

  /// Sends the reason why the node ends by itself, or an empty text, as the node's last frame.
  func sayGoodbye(because reason: String, code: Int32) {
    isClosed = true
    say(.stopped, count: UInt32(code), Array(reason.utf8))
  }

  /// Closes the socket. It continues to send during its linger period.
  func close() { socket.close(lingering: linger) }
}

/// Detects that an orchestrator's pings have stopped.
package struct PingWatch: Sendable {
  /// The time at which the next ping counts as missed. Unit: nanoseconds of ``BootClock``.
  package private(set) var due: Int64 = 0
  /// The number of missed pings since the last ping.
  package private(set) var silences: UInt64 = 0
  private var patience: Int64 = 0

  /// The longest pause between two checks. Unit: nanoseconds.
  private static let longest: Int64 = 30_000_000_000

  /// The delay after which a check was itself held up: a ping may have arrived and not be read yet.
  /// Unit: nanoseconds.
  private static let lateness: Int64 = 500_000_000

  package init() {}

  /// Notes that a ping has arrived, which announces the interval until the next one.
  package mutating func heard(at now: Int64, interval: Duration) {
    // Shorter than the five intervals after which the orchestrator considers the node hung.
    patience = interval.clampedNanoseconds / 2 * 5
    silences = 0
    due = now + patience
  }

  /// Whether a ping is missed. The pauses grow from one missed ping to the next.
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
