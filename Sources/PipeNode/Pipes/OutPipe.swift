import PipeJournal
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// The sending end of a pipe: a DEALER socket to the receiver's inbox, and the state of the
/// conversation.
final class OutPipe: Touchable {
  let name: String
  let socket: Socket
  /// Reports each new connection, which must be announced to the receiver.
  let connections: ConnectionMonitor
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var state: OutPipeStateMachine
  @exclusivity(unchecked)
  var isTouched = false
  /// Whether events were queued since the pipe was last seen to have capacity. Maintained by the
  /// caller that checks the capacity.
  @exclusivity(unchecked)
  var isPossiblyFull = false
  private let touched: TouchedPipes<OutPipe>
  /// The endpoint of the receiver; `nil` while it is unknown.
  private var receiverEndpoint: PeerEndpoint?
  /// The former endpoint of the receiver. A connection to it may still be ending.
  private var formerEndpoint: String?
  let receiver: String
  private let log: NodeLog
  /// The number of events that could not be encoded, or exceeded the size limit.
  private(set) var unsendable: UInt64 = 0
  private(set) var lost: UInt64 = 0
  private(set) var invalidFrames: UInt64 = 0
  /// The events that the journal lacks, each followed by a line feed.
  @exclusivity(unchecked)
  private var unrecorded: (count: Int, bytes: [UInt8]) = (0, [])
  /// The last acknowledged event in the journal (`done`), and after the current record (`due`).
  private var trimmed: (done: UInt64, due: UInt64) = (0, 0)
  /// Whether the journal must record the receiver of the pipe, with the first event.
  private var isReceiverUnrecorded = false
  private var isConnected = false
  /// The number of frames from the receiver.
  private var receivedFrames: UInt64 = 0
  private var awaitsWelcome = true
  private var silence = SilentPeerPolicy()
  private var reconnections: UInt64 = 0
  /// Called when the receiver may have acknowledged more.
  var onAcknowledged: (() -> Void)?
  /// Called when this end cannot continue.
  var onFailure: ((String) -> Void)?
  /// Receives each queued event, with its number.
  typealias Watcher = (_ number: UInt64, _ event: ArraySlice<UInt8>) -> Void
  /// The watchers of the pipe's events: a tap, and the trace of the steps that send them.
  private var watchers: (tap: PipeTap?, steps: Watcher?)
  /// Whether there is a watcher.
  @exclusivity(unchecked)
  private var isWatched = false

  /// - Parameters:
  ///   - receiverEndpoint: The endpoint of the receiver; `nil` while it is unknown.
  ///   - stream: Identifies the numbering of this process's events if they are not recorded.
  ///   - recorded: The journal's records of the pipe.
  init(
    _ configuration: NodeConfiguration.Out, at receiverEndpoint: PeerEndpoint?, stream: UInt64,
    journal: Journal?,
    recorded: OutPipeRecord?, among touched: TouchedPipes<OutPipe>, context: Context, log: NodeLog
  ) throws(TransportError) {
    self.touched = touched
    name = configuration.name
    self.receiverEndpoint = receiverEndpoint
    receiver = configuration.receiver
    let capacity = configuration.capacity
    if configuration.isDurable, let journal {
      isReceiverUnrecorded = recorded?.receiver == nil
      if let restored = recorded?.sent {
        state = OutPipeStateMachine(
          capacity: capacity, stream: journal.stream, acknowledged: restored.acknowledged,
          redirectedAfter: recorded?.receiver?.redirectedAfter ?? 0, events: restored.events)
        trimmed = (restored.acknowledged, restored.acknowledged)
      } else {
        state = OutPipeStateMachine(capacity: capacity, stream: journal.stream, isDurable: true)
      }
    } else {
      state = OutPipeStateMachine(capacity: capacity, stream: stream)
    }
    self.log = log
    socket = try Socket(.dealer, in: context)
    // Credit bounds the events in flight; a high-water mark would only make sends fail.
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(WireName.pipe(name))
    // ZMQ_PROBE_ROUTER would announce only the first connection. ZMQ_IMMEDIATE in addition would
    // discard messages that a lost connection has delivered, such as a goodbye.
    connections = try ConnectionMonitor(of: socket, in: context)
    if let receiverEndpoint { try socket.connect(to: receiverEndpoint) }
  }

  var isFull: Bool { state.isFull }

  /// Queues the event that `write` appends. The event is sent at the end of the turn.
  func enqueue(_ write: (inout [UInt8]) throws -> Void) {
    touched.touch(self)
    let isDurable = state.isDurable
    let number = state.queued + 1
    do {
      try state.enqueue { bytes in
        let start = bytes.count
        try write(&bytes)
        guard bytes.count - start <= WireLimits.eventByteCount else {
          throw EventTooLarge(byteCount: bytes.count - start)
        }
        if isWatched { report(number, bytes[start...]) }
        guard isDurable else { return }
        unrecorded.bytes += bytes[start...]
        unrecorded.bytes.append(0x0A)
        unrecorded.count += 1
      }
    } catch {
      unsendable += 1
      log.warning("pipe '\(name)': an event was not sent: \(error)")
    }
  }

  private func report(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    watchers.tap?.take(number, event)
    watchers.steps?(number, event)
  }

  /// Counts events that were lost with a former sender of this pipe.
  func addLost(_ count: UInt64) { lost += count }

  /// Reports each event to the feed, as long as a subscriber asks for the events of this pipe;
  /// `nil` ends the reports.
  func tap(to feed: Feed?) {
    if let feed {
      if watchers.tap == nil { watchers.tap = PipeTap(self, to: feed) }
    } else {
      watchers.tap = nil
    }
    isWatched = watchers.tap != nil || watchers.steps != nil
  }

  /// Reports each event to a watcher that traces steps; `nil` ends the reports.
  func watch(_ watcher: Watcher?) {
    watchers.steps = watcher
    isWatched = watchers.tap != nil || watchers.steps != nil
  }

  /// Whether a stopping node need not wait for this pipe: all events are applied, or no receiver is
  /// connected.
  var isDrained: Bool {
    if case .open = state.phase { state.pending == 0 } else { true }
  }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: name, events: state.queued, applied: state.acknowledged,
      waiting: Int(state.queued - state.sent), capacity: Int(state.capacity), lost: lost,
      unsendable: unsendable)
  }

  // MARK: Records

  /// Whether the journal lacks an event.
  var hasUnrecordedChanges: Bool { unrecorded.count > 0 }

  /// Whether the journal has events that need not be kept.
  var hasAcknowledgedRecords: Bool { state.isDurable && state.acknowledged > trimmed.done }

  func record(into journal: Journal) throws {
    guard isUnrecorded else { return }
    if hasUnrecordedChanges {
      if isReceiverUnrecorded {
        try journal.pipeConnected(name, to: JournalContents.Receiver(receiver))
      }
      try journal.queued(
        name, last: state.queued, count: unrecorded.count, events: unrecorded.bytes)
    }
    try journal.sent(
      name, queued: state.queued, acknowledged: state.acknowledged, trims: hasAcknowledgedRecords)
    trimmed.due = state.acknowledged
  }

  /// Notes that all queued events are recorded, or need no record.
  func didRecord() {
    if state.isDurable {
      if hasUnrecordedChanges { isReceiverUnrecorded = false }
      unrecorded.count = 0
      unrecorded.bytes.removeAll(keepingCapacity: unrecorded.bytes.capacity < 1 << 20)
      if trimmed.done < trimmed.due {
        trimmed.done = trimmed.due
        Failpoint.hit(.trimAfter)
      }
    }
    state.record()
  }

  // MARK: The conversation

  func flush() { perform(state.flush()) }

  /// Announces each new connection with an empty message.
  func readConnections() {
    touched.touch(self)
    connections.readEndpoints { event, endpoint in
      if endpoint == formerEndpoint { return }
      isConnected = event == .connected
      if isConnected { announce() } else { state.disconnected() }
    }
  }

  private func announce() {
    awaitsWelcome = true
    socket.sendPart([], more: false)
  }

  /// Whether the next record needs an entry for this pipe.
  var isUnrecorded: Bool { hasUnrecordedChanges || hasAcknowledgedRecords }

  /// Whether the receiver is connected and owes an answer.
  var isWaiting: Bool { isConnected && (awaitsWelcome || state.pending > 0) }

  /// Checks for a silent receiver: announces this end again after a while, or reconnects. The
  /// receiver's welcome shows which events it has.
  func checkSilence() {
    switch silence.tick(isWaiting: isWaiting, progress: receivedFrames) {
    case .wait: break
    case .ask: announce()
    case .reconnect:
      // A receiver that has not started yet is expected to be silent.
      if state.hasBeenWelcomed {
        reconnections += 1
        log.silence(
          of: "the receiver of pipe '\(name)'", at: receiverEndpoint?.endpoint ?? "",
          as: WireName.pipe(name),
          count: reconnections)
      }
      isConnected = false
      state.disconnected()
      reconnect()
    }
  }

  /// Reads the frames of the receiver.
  func read() {
    touched.touch(self)
    while socket.receive({ _, bytes in
      do {
        try handle(FrameHeader(bytes), bytes)
      } catch {
        invalidFrames += 1
        log.reportInvalidFrame(error, from: "the receiver of pipe '\(name)'", count: invalidFrames)
      }
    }) {}
  }

  /// Says goodbye. The socket then continues to send during its linger period.
  func close() { perform(state.close()) }

  private func handle(
    _ header: FrameHeader, _ frame: UnsafeRawBufferPointer
  ) throws(FrameError) {
    receivedFrames += 1
    switch header.kind {
    case .welcome:
      awaitsWelcome = false
      guard frame.count == FrameHeader.byteCount + 8 else { throw .body(.welcome) }
      let stream = UInt64(
        littleEndian: frame.loadUnaligned(
          fromByteOffset: FrameHeader.byteCount, as: UInt64.self))
      perform(
        state.welcomed(
          session: header.number, stream: stream, received: header.sequence,
          window: header.count,
          isDurable: header.flags & InPipeStateMachine.durableFlag != 0))
    case .credit:
      perform(
        state.credited(session: header.number, applied: header.sequence, window: header.count))
    case .closed:
      state.receiverClosed(session: header.number, applied: header.sequence)
    default: throw .kind(header.kind.rawValue)
    }
    onAcknowledged?()
  }

  private func perform(_ actions: [OutPipeStateMachine.Action]) {
    for action in actions {
      switch action {
      case .send(let header):
        socket.send(header)
      case .open(let header, let stream):
        socket.send(header, body: withUnsafeBytes(of: stream.littleEndian, Array.init))
        if Failpoint.hit(.openAfter) { reconnect() }
      case .sendBatch(let batch, let session):
        if Failpoint.hit(.sendBefore) { reconnect() }
        socket.send(
          FrameHeader(
            .events, count: UInt32(batch.count), sequence: batch.first, number: session),
          body: batch.bytes)
        if Failpoint.hit(.sendAfter) { reconnect() }
      case .report(let lost, let through):
        self.lost += lost
        log.warning(
          "pipe '\(name)': up to \(lost) events through number \(through) were in flight when the "
            + "receiver died, and are lost")
      case .reportStaleJournal(let received):
        onFailure?(
          "pipe '\(name)': the receiver has event \(received), but this node's journal ends at "
            + "event \(state.queued): the journal is an old copy; restore the newest copy, or "
            + "reset both nodes with 'orchestrator reset'")
      }
    }
  }

  /// Disconnects from the receiver and connects again. Frames in flight are lost, as in a failing
  /// network.
  private func reconnect() {
    guard let receiverEndpoint else { return }
    socket.disconnect(receiverEndpoint.endpoint)
    try? socket.connect(to: receiverEndpoint)
  }

  // MARK: Receivers off this host

  /// Disconnects from the receiver, which is gone or is another process now.
  func disconnectPeer() {
    guard let receiverEndpoint else { return }
    touched.touch(self)
    socket.disconnect(receiverEndpoint.endpoint)
    formerEndpoint = receiverEndpoint.endpoint
    self.receiverEndpoint = nil
    isConnected = false
    state.disconnected()
  }

  /// Connects to the receiver at its current endpoint.
  func connectPeer(at receiverEndpoint: PeerEndpoint) {
    disconnectPeer()
    self.receiverEndpoint = receiverEndpoint
    if formerEndpoint == receiverEndpoint.endpoint { formerEndpoint = nil }
    silence = SilentPeerPolicy()
    do {
      try socket.connect(to: receiverEndpoint)
    } catch {
      log.warning("pipe '\(name)' cannot connect to its receiver '\(receiver)': \(error)")
    }
  }
}

/// An event whose JSON is over the limit.
struct EventTooLarge: Error, CustomStringConvertible {
  var byteCount: Int

  var description: String {
    "the event has \(byteCount) bytes; the limit is \(WireLimits.eventByteCount); send a reference "
      + "to large data, such as a file path"
  }
}

/// Reports the events that go into a pipe to the subscribers of a feed.
final class PipeTap {
  private let node: String
  private let pipe: String
  private let stream: UInt64
  private let rateLimitedFeed: RateLimitedFeed

  init(_ pipe: OutPipe, to feed: Feed) {
    let (node, name, stream) = (feed.node, pipe.name, pipe.state.stream)
    self.node = node
    self.pipe = name
    self.stream = stream
    rateLimitedFeed = RateLimitedFeed(.tap, about: name, to: feed) { [unowned pipe] skipped in
      var body = Self.body(node, name, stream, pipe.state.queued)
      body.add("skipped", skipped)
      return (pipe.state.queued, body)
    }
  }

  func take(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    guard rateLimitedFeed.begin() else { return }
    var body = Self.body(node, pipe, stream, number)
    body.add("time", WallClock.nanoseconds)
    body.add("event", json: event)
    rateLimitedFeed.report(number, body)
  }

  private static func body(
    _ node: String, _ pipe: String, _ stream: UInt64, _ number: UInt64
  ) -> FeedBody {
    var body = FeedBody()
    body.add("node", text: node)
    body.add("pipe", text: pipe)
    body.add("stream", stream)
    body.add("number", number)
    return body
  }
}
