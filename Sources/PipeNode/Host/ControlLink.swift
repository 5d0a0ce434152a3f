import PipeSupport
import PipeTransport
import PipeWire

/// A node's connection to its orchestrator. It reads the orchestrator's frames, sends the node's
/// frames, and reconnects when the pings have stopped.
final class ControlLink {
  private let socket: Socket
  private let peerEndpoint: PeerEndpoint
  /// The routing id under which the node is connected to the orchestrator's socket.
  private let routingID: String
  private let incarnation: UInt64
  private let loop: PollLoop
  private let log: NodeLog
  /// The time for which the closed socket continues to send its last frames.
  private let linger: Duration
  private var pings: PingWatch?
  private var isConnected = false
  private var isClosed = false
  private(set) var invalidFrames: UInt64 = 0
  /// Called with each frame from the orchestrator, except for renewals of the lease.
  var onFrame: ((FrameHeader, UnsafeRawBufferPointer) throws -> Void)?
  /// Called when the orchestrator has renewed the lease. `requestTime` is the time at which this
  /// process requested the renewal.
  var onRenewal: ((_ requestTime: UInt64) -> Void)?
  /// Called when all pending frames have been read.
  var onFramesRead: (() -> Void)?
  /// Called after the link has reconnected. The node must then repeat its `hello` frame.
  var onReconnection: (() -> Void)?

  /// The maximum time until the first ping from an orchestrator.
  private static let firstPingTimeout: Duration = .seconds(1)
  private static let defaultLinger: Duration = .milliseconds(300)
  /// The linger period of a connection to another host. It is longer than ``defaultLinger``,
  /// because the handshake of the connection may still be in progress.
  private static let remoteLinger: Duration = .seconds(1)

  init(
    _ arguments: NodeArguments, keys: NodeKeys?, context: Context, loop: PollLoop, log: NodeLog
  ) throws(TransportError) {
    peerEndpoint =
      if let keys {
        PeerEndpoint(arguments.control, key: keys.controlKey, own: keys.keyPair)
      } else {
        PeerEndpoint(arguments.control)
      }
    linger = keys == nil ? Self.defaultLinger : Self.remoteLinger
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

  /// Registers the socket with the loop, which then reads the orchestrator's frames.
  func run() { loop.add(socket, for: self) { $0.read() } }

  func send(_ kind: FrameKind, sequence: UInt64 = 0, count: UInt32 = 0, _ body: [UInt8] = []) {
    socket.send(
      FrameHeader(kind, count: count, sequence: sequence, incarnationOrSession: incarnation),
      body: body)
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

  // MARK: Pings from the orchestrator

  /// Begins to expect pings. The first ping must arrive within ``firstPingTimeout``.
  func expectPings() { expectPing(within: Self.firstPingTimeout) }

  /// Notes that a ping has arrived, and expects the next ping.
  /// - Parameter interval: The interval until the next ping, as announced by the orchestrator.
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

  /// Opens a new connection. If another program has connected under this node's routing id, the new
  /// connection reclaims the id.
  private func reconnect() {
    guard !isClosed else { return }
    log.logSilence(
      of: "the orchestrator", at: peerEndpoint.endpoint, as: routingID,
      count: pings?.missedPings ?? 0)
    socket.disconnect(peerEndpoint.endpoint)
    isConnected = false
    try? connect()
    onReconnection?()
  }

  // MARK: Closing the connection

  /// Sends the node's last frame. The frame's body is the failure reason of the node, or empty if
  /// the node has not failed.
  func sayGoodbye(because reason: String, code: Int32) {
    isClosed = true
    send(.stopped, count: UInt32(code), Array(reason.utf8))
  }

  /// Closes the socket. It continues to send during its linger period.
  func close() { socket.close(lingering: linger) }
}

/// A watch that detects that an orchestrator's pings have stopped.
package struct PingWatch: Sendable {
  /// The time at which the next ping counts as missed. Unit: nanoseconds of ``BootClock``.
  package private(set) var deadline: Int64 = 0
  /// The number of deadlines in a row that have passed without a ping.
  package private(set) var missedPings: UInt64 = 0
  private var timeoutNanoseconds: Int64 = 0

  /// The maximum of the timeout, which increases with each missed ping. Unit: nanoseconds.
  private static let maximumTimeout: Int64 = 30_000_000_000

  /// The tolerance for late checks. If a check runs later than this time after the deadline, the
  /// process itself was delayed, and a ping may be waiting unread. The check then sets a new
  /// deadline instead of counting a missed ping. Unit: nanoseconds.
  private static let checkTolerance: Int64 = 500_000_000

  package init() {}

  /// Notes that a ping has arrived.
  /// - Parameter interval: The interval until the next ping, as announced by this ping.
  package mutating func recordPing(at now: Int64, interval: Duration) {
    // The timeout is 2.5 intervals. The orchestrator considers a node hung after five intervals at
    // the earliest, so the node reconnects before that time.
    timeoutNanoseconds = interval.clampedNanoseconds / 2 * 5
    missedPings = 0
    deadline = now + timeoutNanoseconds
  }

  /// Returns whether a ping is overdue. Each overdue ping in a row doubles the time until the next
  /// check.
  package mutating func detectMissedPing(at now: Int64) -> Bool {
    guard now >= deadline else { return false }
    guard now - deadline <= Self.checkTolerance else {
      deadline = now + Self.checkTolerance
      return false
    }
    missedPings += 1
    timeoutNanoseconds = min(2 * timeoutNanoseconds, max(timeoutNanoseconds, Self.maximumTimeout))
    deadline = now + timeoutNanoseconds
    return true
  }
}
