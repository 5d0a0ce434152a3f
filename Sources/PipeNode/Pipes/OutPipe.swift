import PipeJournal
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// The sending end of a pipe: a DEALER to the receiver's inbox, and the state of the conversation.
final class OutPipe: Touchable {
  let name: String
  let socket: Socket
  /// Tells of each new connection, which is to be announced to the receiver.
  let connections: ConnectionMonitor
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private(set) var state: OutPipeStateMachine
  @exclusivity(unchecked)
  var isTouched = false
  /// Whether it was sent into since it was last seen to have room, by who asks for that.
  @exclusivity(unchecked)
  var isDoubtful = false
  private let touched: TouchedPipes<OutPipe>
  /// Where the receiver is; `nil` while that is not known.
  private var place: PeerPlace?
  /// Where it was before; a connection to there may still be ending.
  private var formerEndpoint: String?
  let receiver: String
  private let log: NodeLog
  /// Events that could not be encoded, or were over the size limit.
  private(set) var unsendable: UInt64 = 0
  private(set) var lost: UInt64 = 0
  private(set) var garbage: UInt64 = 0
  /// Events that the journal lacks, each ended by a line feed.
  @exclusivity(unchecked)
  private var unrecorded: (count: Int, bytes: [UInt8]) = (0, [])
  /// What the journal has as acknowledged, and will have with the record under way.
  private var trimmed: (done: UInt64, due: UInt64) = (0, 0)
  /// Whether the journal is to say where the pipe leads, with its first event.
  private var isReceiverUnrecorded = false
  private var isConnected = false
  /// Frames that the receiver has sent.
  private var answers: UInt64 = 0
  private var awaitsWelcome = true
  private var silence = PeerSilence()
  private var reconnections: UInt64 = 0
  /// Called when the receiver may have acknowledged more.
  var onAcknowledged: (() -> Void)?
  /// Called where this end cannot go on.
  var onFailure: ((String) -> Void)?
  /// Told of each event that is queued, with its number.
  typealias Watcher = (_ number: UInt64, _ event: ArraySlice<UInt8>) -> Void
  /// Those who ask for the events of the pipe, and for the steps that they are sent in.
  private var watchers: (tap: PipeTap?, steps: Watcher?)
  /// Whether there is one.
  @exclusivity(unchecked)
  private var isWatched = false

  /// - Parameters:
  ///   - place: Where the receiver is; `nil` where that is not known yet.
  ///   - stream: Names the numbering of this process's events where they are not recorded.
  ///   - former: What the journal has of the pipe.
  init(
    _ configuration: NodeConfiguration.Out, at place: PeerPlace?, stream: UInt64, journal: Journal?,
    former: FormerPipe?, among touched: TouchedPipes<OutPipe>, context: Context, log: NodeLog
  ) throws(TransportError) {
    self.touched = touched
    name = configuration.name
    self.place = place
    receiver = configuration.receiver
    let capacity = configuration.capacity
    if configuration.isDurable, let journal {
      isReceiverUnrecorded = former?.receiver == nil
      if let restored = former?.sent {
        state = OutPipeStateMachine(
          capacity: capacity, stream: journal.stream, acknowledged: restored.acknowledged,
          turnedAfter: former?.receiver?.turnedAfter ?? 0, events: restored.events)
        trimmed = (restored.acknowledged, restored.acknowledged)
      } else {
        state = OutPipeStateMachine(capacity: capacity, stream: journal.stream, isDurable: true)
      }
    } else {
      state = OutPipeStateMachine(capacity: capacity, stream: stream)
    }
    self.log = log
    socket = try Socket(.dealer, in: context)
    // Credit bounds what is under way; a high-water mark would only make sends fail.
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(WireName.pipe(name))
    // Neither ZMQ_PROBE_ROUTER, which announces only the first connection, nor with it
    // ZMQ_IMMEDIATE, which throws away what a lost connection had brought: a goodbye, say.
    connections = try ConnectionMonitor(of: socket, in: context)
    if let place { try socket.connect(to: place) }
  }

  var isFull: Bool { state.isFull }

  /// Queues the event that `write` appends; it goes out at the end of the turn.
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
        if isWatched { tell(number, bytes[start...]) }
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

  private func tell(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    watchers.tap?.take(number, event)
    watchers.steps?(number, event)
  }

  /// Counts events that went with a former sender of this pipe.
  func lose(_ count: UInt64) { lost += count }

  /// Tells of each event, as long as somebody asks for the pipe's.
  func tap(to feed: Feed?) {
    if let feed {
      if watchers.tap == nil { watchers.tap = PipeTap(self, to: feed) }
    } else {
      watchers.tap = nil
    }
    isWatched = watchers.tap != nil || watchers.steps != nil
  }

  /// Tells of each event to who tells of steps.
  func watch(_ watcher: Watcher?) {
    watchers.steps = watcher
    isWatched = watchers.tap != nil || watchers.steps != nil
  }

  /// Whether a stopping node need not wait for this pipe: all is applied, or nobody is there.
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
  var hasUnrecorded: Bool { unrecorded.count > 0 }

  /// Whether the journal has events that need not be kept.
  var hasAcknowledged: Bool { state.isDurable && state.acknowledged > trimmed.done }

  func record(into journal: Journal) throws {
    guard isUnrecorded else { return }
    if hasUnrecorded {
      if isReceiverUnrecorded { try journal.leads(name, to: JournalContents.Receiver(receiver)) }
      try journal.queued(
        name, last: state.queued, count: unrecorded.count, events: unrecorded.bytes)
    }
    try journal.sent(
      name, queued: state.queued, acknowledged: state.acknowledged, trims: hasAcknowledged)
    trimmed.due = state.acknowledged
  }

  /// What is queued is recorded, or needs no record.
  func becameRecorded() {
    if state.isDurable {
      if hasUnrecorded { isReceiverUnrecorded = false }
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

  /// Announces each new connection by an empty message.
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

  /// Whether the next record has something to say of it.
  var isUnrecorded: Bool { hasUnrecorded || hasAcknowledged }

  /// Whether the receiver is there and owes a word.
  var isWaiting: Bool { isConnected && (awaitsWelcome || state.pending > 0) }

  /// Announces this end once more where nothing was heard for a while, or connects anew; the
  /// receiver's welcome tells what it has.
  func lookAtSilence() {
    switch silence.tick(isWaiting: isWaiting, progress: answers) {
    case .wait: break
    case .ask: announce()
    case .reconnect:
      // One that has not started yet has nothing to say.
      if state.hasMet {
        reconnections += 1
        log.silence(
          of: "the receiver of pipe '\(name)'", at: place?.endpoint ?? "", as: WireName.pipe(name),
          count: reconnections)
      }
      isConnected = false
      state.disconnected()
      reconnect()
    }
  }

  /// Reads what the receiver says.
  func read() {
    touched.touch(self)
    while socket.receive({ _, bytes in
      do {
        try handle(FrameHeader(bytes), bytes)
      } catch {
        garbage += 1
        log.garbage(error, from: "the receiver of pipe '\(name)'", count: garbage)
      }
    }) {}
  }

  /// Says goodbye; the socket then goes on sending for as long as its linger says.
  func close() { perform(state.close()) }

  private func handle(
    _ header: FrameHeader, _ frame: UnsafeRawBufferPointer
  ) throws(FrameError) {
    answers += 1
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
          "pipe '\(name)': up to \(lost) events through number \(through) were under way when the "
            + "receiver died, and are lost")
      case .isBehind(let received):
        onFailure?(
          "pipe '\(name)': its receiver has event \(received), and this node's journal ends at "
            + "\(state.queued): the journal is an old one. Put the newest back, or start both nodes "
            + "anew with 'orchestrator reset'")
      }
    }
  }

  /// Parts from the receiver and connects again. What is under way is lost, as in a failing network.
  private func reconnect() {
    guard let place else { return }
    socket.disconnect(place.endpoint)
    try? socket.connect(to: place)
  }

  // MARK: Receivers off this host

  /// Parts from the receiver, which is gone or is another process now.
  func part() {
    guard let place else { return }
    touched.touch(self)
    socket.disconnect(place.endpoint)
    formerEndpoint = place.endpoint
    self.place = nil
    isConnected = false
    state.disconnected()
  }

  /// Connects to the receiver, where it is now.
  func meet(at place: PeerPlace) {
    part()
    self.place = place
    if formerEndpoint == place.endpoint { formerEndpoint = nil }
    silence = PeerSilence()
    do {
      try socket.connect(to: place)
    } catch {
      log.warning("pipe '\(name)' does not get to its receiver '\(receiver)': \(error)")
    }
  }
}

/// An event whose JSON is over the limit.
struct EventTooLarge: Error, CustomStringConvertible {
  var byteCount: Int

  var description: String {
    "it has \(byteCount) bytes; the limit is \(WireLimits.eventByteCount). Send a reference to "
      + "large data, such as a file's path."
  }
}

/// Tells the events that go into a pipe to who asks for them.
final class PipeTap {
  private let node: String
  private let pipe: String
  private let stream: UInt64
  private let told: ToldSequence

  init(_ pipe: OutPipe, to feed: Feed) {
    let (node, name, stream) = (feed.node, pipe.name, pipe.state.stream)
    self.node = node
    self.pipe = name
    self.stream = stream
    told = ToldSequence(.tap, about: name, to: feed) { [unowned pipe] skipped in
      var body = Self.body(node, name, stream, pipe.state.queued)
      body.add("skipped", skipped)
      return (pipe.state.queued, body)
    }
  }

  func take(_ number: UInt64, _ event: ArraySlice<UInt8>) {
    guard told.begin() else { return }
    var body = Self.body(node, pipe, stream, number)
    body.add("time", WallClock.nanoseconds)
    body.add("event", json: event)
    told.tell(number, body)
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
