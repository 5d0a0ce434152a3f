import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// The sending end of a pipe: a DEALER socket to the receiver's inbox, and the state of the
/// conversation.
final class OutPipe: Touchable {
  let name: String
  let socket: Socket
  /// The monitor that reports each new connection. On each new connection, this end must announce
  /// itself to the receiver again.
  let connections: ConnectionMonitor
  // A run-time exclusivity check would slow down each event. Only the loop's thread accesses the
  // value.
  @exclusivity(unchecked)
  private(set) var state: OutPipeStateMachine
  @exclusivity(unchecked)
  var isTouched = false
  /// Whether events were queued since the last check of the pipe's capacity. The check resets this
  /// value.
  @exclusivity(unchecked)
  var isPossiblyFull = false
  private let touched: TouchedPipes<OutPipe>
  /// The endpoint of the receiver; `nil` while the endpoint is unknown.
  private var receiverEndpoint: PeerEndpoint?
  /// The endpoint from which this end has last disconnected. A connection to this endpoint may
  /// still be ending.
  private var formerEndpoint: String?
  let receiver: String
  /// The schema version of the receiver for which this process encodes events.
  private let schema: Int
  private let log: NodeLog
  /// The number of events that were not sent because they could not be encoded or were too large.
  private(set) var unsendableCount: UInt64 = 0
  private(set) var lostCount: UInt64 = 0
  private(set) var invalidFrameCount: UInt64 = 0
  /// The events that the journal has not recorded, each followed by a line feed.
  @exclusivity(unchecked)
  private var unrecordedEvents: (count: Int, bytes: [UInt8]) = (0, [])
  /// The progress of deleting acknowledged events from the journal. `done`: the number up to which
  /// events are deleted. `due`: the number up to which the next record deletes events.
  private var trimProgress: (done: UInt64, due: UInt64) = (0, 0)
  /// Whether the journal must record the pipe's receiver together with the next events.
  private var isReceiverUnrecorded = false
  private var isConnected = false
  /// The number of frames that the receiver has sent.
  private var receivedFrameCount: UInt64 = 0
  private var awaitsWelcome = true
  private var silencePolicy = SilentPeerPolicy()
  private var reconnectionCount: UInt64 = 0
  /// Called after each frame from the receiver, because the frame may acknowledge further events.
  var onAcknowledged: (() -> Void)?
  /// Called when this end cannot continue.
  var onFailure: ((String) -> Void)?
  /// A function that receives each queued event with its number.
  typealias Watcher = (_ number: UInt64, _ event: ArraySlice<UInt8>) -> Void
  /// The watchers of the pipe's events: a tap, and the trace of the steps that send them.
  private var watchers: (tap: PipeTap?, steps: Watcher?)
  /// Whether there is a tap or a trace.
  @exclusivity(unchecked)
  private var isWatched = false

  /// - Parameters:
  ///   - receiverEndpoint: The endpoint of the receiver; `nil` while the endpoint is unknown.
  ///   - stream: The id of the numbering of events if the events are not recorded.
  ///   - recorded: The pipe's data in the journal; `nil` if the journal contains no data.
  init(
    _ configuration: NodeConfiguration.Out, at receiverEndpoint: PeerEndpoint?, stream: UInt64,
    journal: Journal?,
    recorded: OutPipeRecord?, among touched: TouchedPipes<OutPipe>, context: Context, log: NodeLog
  ) throws(TransportError) {
    self.touched = touched
    name = configuration.name
    self.receiverEndpoint = receiverEndpoint
    receiver = configuration.receiver
    schema = configuration.schema ?? 1
    let capacity = configuration.capacity
    if configuration.isDurable, let journal {
      isReceiverUnrecorded = recorded?.receiver == nil
      if let restored = recorded?.progress {
        state = OutPipeStateMachine(
          capacity: capacity, stream: journal.stream, lastAcknowledged: restored.lastAcknowledged,
          redirectedAfter: recorded?.receiver?.lastNumberBeforeRedirection ?? 0, events: [[UInt8]]()
        )
        for event in restored.events { state.restore(event.json, schema: event.schema) }
        trimProgress = (restored.lastAcknowledged, restored.lastAcknowledged)
      } else {
        state = OutPipeStateMachine(capacity: capacity, stream: journal.stream, isDurable: true)
      }
    } else {
      state = OutPipeStateMachine(capacity: capacity, stream: stream)
    }
    self.log = log
    socket = try Socket(.dealer, in: context)
    // Credit limits the events in flight. A high-water mark would only make sends fail.
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(WireName.pipe(name))
    // Does not set ZMQ_PROBE_ROUTER, which would announce only the first connection. With
    // ZMQ_IMMEDIATE in addition, libzmq would discard received messages, such as a goodbye, when
    // their connection is lost.
    connections = try ConnectionMonitor(of: socket, in: context)
    if let receiverEndpoint { try socket.connect(to: receiverEndpoint) }
  }

  var isFull: Bool { state.isFull }

  /// The end of the pipe in the report of a gate.
  var gateReport: GateReport.PipeEnd {
    GateReport.PipeEnd(
      pipe: name, stream: state.stream, last: state.lastQueued,
      events: state.pendingEvents.map {
        GateReport.Event(number: $0.number, event: JSONValue(shown: $0.event))
      })
  }

  /// Queues an event. `write` must append the event's JSON to its argument. The event is sent at
  /// the end of the turn.
  func enqueue(_ write: (inout [UInt8]) throws -> Void) {
    touched.touch(self)
    let isDurable = state.isDurable
    let number = state.lastQueued + 1
    do {
      try state.enqueue(schema: schema) { bytes in
        let start = bytes.count
        try write(&bytes)
        guard bytes.count - start <= WireLimits.maximumEventByteCount else {
          throw EventTooLarge(byteCount: bytes.count - start)
        }
        if isWatched { reportEvent(number, bytes[start...]) }
        guard isDurable else { return }
        unrecordedEvents.bytes += bytes[start...]
        unrecordedEvents.bytes.append(0x0A)
        unrecordedEvents.count += 1
      }
    } catch {
      unsendableCount += 1
      log.warning("pipe '\(name)': an event was not sent: \(error)")
    }
  }

  private func reportEvent(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    watchers.tap?.report(number, event)
    watchers.steps?(number, event)
  }

  /// Adds events that were lost with a former sender of this pipe to the count of lost events.
  func addLost(_ count: UInt64) { lostCount += count }

  /// Reports each queued event to `feed`, as long as a client subscribes to the events of this
  /// pipe; `nil` ends the reports.
  func tap(to feed: Feed?) {
    if let feed {
      if watchers.tap == nil { watchers.tap = PipeTap(self, to: feed) }
    } else {
      watchers.tap = nil
    }
    isWatched = watchers.tap != nil || watchers.steps != nil
  }

  /// Passes each queued event to `watcher`, which traces the steps; `nil` ends the trace.
  func watch(_ watcher: Watcher?) {
    watchers.steps = watcher
    isWatched = watchers.tap != nil || watchers.steps != nil
  }

  /// Whether a stopping node can close this pipe without delay: the receiver has applied all
  /// events, or is not connected.
  var isDrained: Bool {
    if case .open = state.phase { state.pendingCount == 0 } else { true }
  }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: name, events: state.lastQueued, applied: state.lastAcknowledged,
      waiting: Int(state.lastQueued - state.lastSent), capacity: Int(state.capacity),
      lost: lostCount,
      unsendable: unsendableCount)
  }

  // MARK: Recording events and progress

  /// Whether queued events are not recorded yet.
  var hasUnrecordedChanges: Bool { unrecordedEvents.count > 0 }

  /// Whether the journal contains acknowledged events that can be deleted.
  var hasAcknowledgedRecords: Bool { state.isDurable && state.lastAcknowledged > trimProgress.done }

  func record(into journal: Journal) throws {
    guard isUnrecorded else { return }
    if hasUnrecordedChanges {
      if isReceiverUnrecorded {
        try journal.recordReceiver(of: name, JournalContents.Receiver(receiver))
      }
      try journal.recordQueuedEvents(
        of: name, last: state.lastQueued, count: unrecordedEvents.count,
        events: unrecordedEvents.bytes,
        schema: schema)
    }
    try journal.recordSendProgress(
      of: name, queued: state.lastQueued, acknowledged: state.lastAcknowledged,
      trims: hasAcknowledgedRecords)
    trimProgress.due = state.lastAcknowledged
  }

  /// Notes that all queued events are recorded, or that the pipe is not durable.
  func didRecord() {
    if state.isDurable {
      if hasUnrecordedChanges { isReceiverUnrecorded = false }
      unrecordedEvents.count = 0
      unrecordedEvents.bytes.removeAll(keepingCapacity: unrecordedEvents.bytes.capacity < 1 << 20)
      if trimProgress.done < trimProgress.due {
        trimProgress.done = trimProgress.due
        Failpoint.hit(.trimAfter)
      }
    }
    state.record()
  }

  // MARK: Conversation with the receiver

  func flush() { perform(state.flush()) }

  /// Reads the socket's connection events. Announces each new connection to the receiver with an
  /// empty message.
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

  /// Whether the next record must include this pipe.
  var isUnrecorded: Bool { hasUnrecordedChanges || hasAcknowledgedRecords }

  /// Whether the receiver is connected and still has to send a welcome or acknowledgements.
  var isWaiting: Bool { isConnected && (awaitsWelcome || state.pendingCount > 0) }

  /// Checks whether the receiver has been silent for too long. If so, announces this end again or,
  /// at the next check that fails, reconnects. The receiver's welcome then shows which events the
  /// receiver has.
  func checkSilence() {
    switch silencePolicy.tick(isWaiting: isWaiting, progress: receivedFrameCount) {
    case .wait: break
    case .ask: announce()
    case .reconnect:
      // A receiver that has not started yet cannot answer. Its silence is not worth a log entry.
      if state.hasBeenWelcomed {
        reconnectionCount += 1
        log.logSilence(
          of: "the receiver of pipe '\(name)'", at: receiverEndpoint?.endpoint ?? "",
          as: WireName.pipe(name),
          count: reconnectionCount)
      }
      isConnected = false
      state.disconnected()
      reconnect()
    }
  }

  /// Reads the frames from the receiver.
  func readFrames() {
    touched.touch(self)
    while socket.receive({ _, bytes in
      do {
        try handle(FrameHeader(bytes), bytes)
      } catch {
        invalidFrameCount += 1
        log.reportInvalidFrame(
          error, from: "the receiver of pipe '\(name)'", count: invalidFrameCount)
      }
    }) {}
  }

  /// Says goodbye to the receiver. The socket continues to send during its linger period.
  func close() { perform(state.close()) }

  private func handle(
    _ header: FrameHeader, _ frame: UnsafeRawBufferPointer
  ) throws(FrameError) {
    receivedFrameCount += 1
    switch header.kind {
    case .welcome:
      awaitsWelcome = false
      guard frame.count == FrameHeader.byteCount + 8 else { throw .body(.welcome) }
      let stream = UInt64(
        littleEndian: frame.loadUnaligned(
          fromByteOffset: FrameHeader.byteCount, as: UInt64.self))
      perform(
        state.welcomed(
          session: header.incarnationOrSession, stream: stream, received: header.sequence,
          window: header.count,
          isDurable: header.flags & InPipeStateMachine.durableFlag != 0))
    case .credit:
      perform(
        state.credited(
          session: header.incarnationOrSession, applied: header.sequence, window: header.count))
    case .closed:
      state.receiverClosed(session: header.incarnationOrSession, applied: header.sequence)
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
            .events, flags: batch.flags, count: UInt32(batch.count), sequence: batch.firstSequence,
            incarnationOrSession: session),
          body: batch.bytes)
        if Failpoint.hit(.sendAfter) { reconnect() }
      case .report(let lost, let through):
        lostCount += lost
        log.warning(
          "pipe '\(name)': up to \(lost) events through number \(through) were in flight when the "
            + "receiver died, and are lost")
      case .reportStaleJournal(let received):
        onFailure?(
          "pipe '\(name)': the receiver has event \(received), but this node's journal ends at "
            + "event \(state.lastQueued): the journal is an old copy; restore the newest copy, or "
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

  // MARK: Receivers on other hosts

  /// Disconnects from the receiver, because its process has ended or was replaced.
  func disconnectPeer() {
    guard let receiverEndpoint else { return }
    touched.touch(self)
    socket.disconnect(receiverEndpoint.endpoint)
    formerEndpoint = receiverEndpoint.endpoint
    self.receiverEndpoint = nil
    isConnected = false
    state.disconnected()
  }

  /// Connects to the receiver at a new endpoint.
  func connectPeer(at receiverEndpoint: PeerEndpoint) {
    disconnectPeer()
    self.receiverEndpoint = receiverEndpoint
    if formerEndpoint == receiverEndpoint.endpoint { formerEndpoint = nil }
    silencePolicy = SilentPeerPolicy()
    do {
      try socket.connect(to: receiverEndpoint)
    } catch {
      log.warning("pipe '\(name)' cannot connect to its receiver '\(receiver)': \(error)")
    }
  }
}

/// The error for an event whose JSON exceeds the size limit.
struct EventTooLarge: Error, CustomStringConvertible {
  var byteCount: Int

  var description: String {
    "the event has \(byteCount) bytes; the limit is \(WireLimits.maximumEventByteCount); send a reference "
      + "to large data, such as a file path"
  }
}

/// A tap on a pipe. Reports each event that enters the pipe to the subscribers of a feed.
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
      var body = Self.body(node, name, stream, pipe.state.lastQueued)
      body.add("skipped", skipped)
      return (pipe.state.lastQueued, body)
    }
  }

  func report(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    guard rateLimitedFeed.countItem() else { return }
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
