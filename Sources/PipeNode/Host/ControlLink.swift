import PipeSupport
import PipeTransport
import PipeWire

/// A node's connection to its orchestrator. It reads the orchestrator's frames, sends the node's
/// frames, and reconnects when the pings have stopped.
final class ControlLink {
  private let socket: Socket
  private let peerEndpoint: PeerEndpoint
  /// The node's routing id at the orchestrator's socket.
  private let routingID: String
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
  var onRenewal: ((_ requestTime: UInt64) -> Void)?
  /// Called when all pending frames have been read.
  var onFramesRead: (() -> Void)?
  /// Called on a new connection, on which the node must say hello.
  var onReconnection: (() -> Void)?

  /// The longest time until an orchestrator's first ping.
  private static let firstPingTimeout: Duration = .seconds(1)
  private static let linger: Duration = .milliseconds(300)
  /// A handshake with keys to a distant host may still be in progress.
  private static let remoteLinger: Duration = .seconds(1)

  init(
    _ arguments: NodeArguments, keys: NodeKeys?, context: Context, loop: PollLoop, log: NodeLog
  ) throws(TransportError) {
    peerEndpoint =
      if let keys {
        PeerEndpoint(arguments.control, key: keys.control, own: keys.pair)
      } else {
        PeerEndpoint(arguments.control)
      }
    linger = keys == nil ? Self.linger : Self.remoteLinger
    routingID = WireName.node(arguments.node)
    incarnation = arguments.incarnation
    self.loop = loop
    self.log = log
    socket = try Socket(.dealer, in: context)
    try socket.setRoutingID(routingID)
  }

  var endpoint: String { peerEndpoint.endpoint }

  func connect() throws(TransportError) {
    guard !isConnected else { return }
    try socket.connect(to: peerEndpoint)
    isConnected = true
  }

  /// Starts reading from the loop.
  func run() { loop.add(socket, for: self) { $0.read() } }

  func send(_ kind: FrameKind, sequence: UInt64 = 0, count: UInt32 = 0, _ body: [UInt8] = []) {
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
    onFramesRead?()
  }

  // MARK: Pings

  /// Starts to expect pings.
  func expectPings() { expectPing(within: Self.firstPingTimeout) }

  /// - Parameter interval: The longest time until the next ping.
  func expectPing(within interval: Duration) {
    let isWatched = pings != nil
    var watch = pings ?? PingWatch()
    watch.recordPing(at: BootClock.nanoseconds, interval: interval)
    pings = watch
    if !isWatched { schedulePingCheck() }
  }

  private func schedulePingCheck() {
    guard let deadline = pings?.deadline else { return }
    let wait = Duration.nanoseconds(max(0, deadline - BootClock.nanoseconds))
    loop.schedule(after: wait, for: self) { link in
      if link.pings?.detectMissedPing(at: BootClock.nanoseconds) == true { link.reconnect() }
      link.schedulePingCheck()
    }
  }

  /// Opens a new connection, which reclaims this node's routing id from another program that has
  /// used it.
  private func reconnect() {
    guard !isClosed else { return }
    log.silence(
      of: "the orchestrator", at: peerEndpoint.endpoint, as: routingID,
      count: pings?.missedPings ?? 0)
    socket.disconnect(peerEndpoint.endpoint)
    isConnected = false
    try? connect()
    onReconnection?()
  }

  // MARK: The end

  /// Sends the reason why the node ends by itself, or an empty text, as the node's last frame.
  func sayGoodbye(because reason: String, code: Int32) {
    isClosed = true
    send(.stopped, count: UInt32(code), Array(reason.utf8))
  }

  /// Closes the socket. It continues to send during its linger period.
  func close() { socket.close(lingering: linger) }
}

/// Detects that an orchestrator's pings have stopped.
package struct PingWatch: Sendable {
  /// The time at which the next ping counts as missed. Unit: nanoseconds of ``BootClock``.
  package private(set) var deadline: Int64 = 0
  /// The number of missed pings since the last ping.
  package private(set) var missedPings: UInt64 = 0
  private var timeout: Int64 = 0

  /// The longest pause between two checks. Unit: nanoseconds.
  private static let longestTimeout: Int64 = 30_000_000_000

  /// The delay after which a check was itself held up: a ping may have arrived and not be read yet.
  /// Unit: nanoseconds.
  private static let checkTolerance: Int64 = 500_000_000

  package init() {}

  /// Notes that a ping has arrived, which announces the interval until the next one.
  package mutating func recordPing(at now: Int64, interval: Duration) {
    // Shorter than the five intervals after which the orchestrator considers the node hung.
    timeout = interval.clampedNanoseconds / 2 * 5
    missedPings = 0
    deadline = now + timeout
  }

  /// Whether a ping is missed. The pauses grow from one missed ping to the next.
  package mutating func detectMissedPing(at now: Int64) -> Bool {
    guard now >= deadline else { return false }
    guard now - deadline <= Self.checkTolerance else {
      deadline = now + Self.checkTolerance
      return false
    }
    missedPings += 1
    timeout = min(2 * timeout, max(timeout, Self.longestTimeout))
    deadline = now + timeout
    return true
  }
}
