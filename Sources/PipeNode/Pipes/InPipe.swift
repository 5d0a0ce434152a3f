import PipeJournal
import PipeSystem
import PipeTransport
import PipeWire

/// The receiving end of a pipe at a node's inbox.
final class InPipe: Touchable {
  let name: String
  let onRefused: RefusalPolicy
  /// The number of refused events that were dropped, because of `on_refused: ignore`.
  var ignoredCount: UInt64 = 0
  /// The ZeroMQ routing id under which the sender is connected to the inbox.
  let senderRoutingID: [UInt8]
  // A run-time exclusivity check would slow down each event. Only the loop's thread accesses the
  // value.
  @exclusivity(unchecked)
  private(set) var state: InPipeStateMachine
  @exclusivity(unchecked)
  var isTouched = false
  /// The index of the pipe among the inbound pipes of the node's content.
  var index = 0
  private(set) var gapCount: UInt64 = 0
  private let inbox: Socket
  private let touched: TouchedPipes<InPipe>
  private let log: NodeLog
  /// Whether events are acknowledged right after they are recorded, because the sender waits for
  /// the acknowledgement.
  var acknowledgesAtOnce = false
  /// The progress of the pipe that the journal contains; `nil` if the journal contains no progress.
  private var recordedPosition: (stream: UInt64, applied: UInt64, closed: Bool)?

  init(
    _ configuration: NodeConfiguration.In, session: UInt64,
    restored: JournalContents.InPipeProgress?,
    inbox: Socket, among touched: TouchedPipes<InPipe>, log: NodeLog
  ) {
    name = configuration.name
    onRefused = configuration.onRefused
    senderRoutingID = Array(WireName.pipe(configuration.name).utf8)
    if configuration.isDurable, let restored {
      state = InPipeStateMachine(
        capacity: configuration.capacity, session: session, stream: restored.stream,
        lastApplied: restored.lastApplied, postponedCount: UInt64(restored.postponedEvents.count),
        senderClosed: restored.isClosed)
      recordedPosition = (restored.stream, restored.lastApplied, restored.isClosed)
    } else {
      state = InPipeStateMachine(
        capacity: configuration.capacity, session: session, isDurable: configuration.isDurable)
    }
    self.inbox = inbox
    self.touched = touched
    self.log = log
  }

  func handleConnection() {
    touched.touch(self)
    perform(state.connected())
  }

  /// Returns the status of the pipe.
  /// - Parameter waiting: The number of events that have arrived and are neither applied nor
  ///   permanently refused.
  func status(waiting: Int) -> NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: name, events: state.lastReceived, applied: state.lastApplied, waiting: waiting,
      capacity: Int(state.capacity), ignored: onRefused == .ignore ? ignoredCount : nil)
  }

  func handleOpen(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    guard body.count == 8, header.sequence > 0 else { throw .body(.open) }
    touched.touch(self)
    perform(
      state.opened(
        session: header.incarnationOrSession,
        stream: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)),
        first: header.sequence, lost: header.count,
        wasRedirected: header.flags & InPipeStateMachine.redirectedFlag != 0))
  }

  /// Hands the new events of a batch to `accept`.
  func handleEvents(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, accept: StepCallbacks.Accept
  ) throws(FrameError) {
    let (schema, events) = try EventBatch.events(of: header, body)
    touched.touch(self)
    let before = state
    let actions = state.arrived(
      session: header.incarnationOrSession, first: header.sequence, count: header.count)
    for action in actions {
      guard case .take(let duplicateCount, let first) = action else {
        perform([action])
        continue
      }
      do {
        try accept(
          ArrivedEvents(
            in: events, count: header.count, duplicateCount: duplicateCount, first: first,
            schemaVersion: schema), self)
      } catch {
        // `accept` has accepted none of the events, so the pipe must still expect them.
        state = before
        throw error
      }
    }
  }

  func handleGoodbye(_ header: FrameHeader) {
    touched.touch(self)
    state.senderSaidGoodbye(session: header.incarnationOrSession)
  }

  /// Finishes an event, because it was applied or permanently refused.
  func finish(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.finish(sequence, of: stream)
  }

  /// Postpones an event until the state changes.
  func postpone(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.postpone(sequence, of: stream)
  }

  /// Finishes a postponed event, because it was applied or permanently refused.
  func finishPostponed(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.finishPostponed(sequence, of: stream)
  }

  /// Holds the event with this number, in a queue that several pipes share, until
  /// ``releaseHeld()``.
  func hold(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.hold(sequence, of: stream)
  }

  /// Frees the capacity of one held event, because it was applied.
  func releaseHeld() {
    touched.touch(self)
    state.releaseHeld()
  }

  // MARK: Recording the pipe's progress

  /// Whether the pipe has finished events, or a goodbye, that the journal must record.
  var hasUnrecordedChanges: Bool {
    guard state.isDurable else { return false }
    return state.hasUnrecordedChanges
      || (recordedPosition.map { $0.closed != state.senderClosed } ?? false)
  }

  /// Whether the journal contains the current progress. Also `true` if no progress has to be
  /// recorded.
  var isRecorded: Bool {
    guard state.isDurable, state.stream != 0 else { return true }
    return recordedPosition.map { $0 == position } ?? false
  }

  private var position: (stream: UInt64, applied: UInt64, closed: Bool) {
    (state.stream, state.lastFinished, state.senderClosed)
  }

  func record(into journal: Journal) throws {
    guard !isRecorded else { return }
    let next = position
    try journal.recordConsumption(
      of: name, stream: next.stream, applied: next.applied, closed: next.closed)
    recordedPosition = next
  }

  /// Notes that all finished events are recorded, and sends an acknowledgement if one is due.
  func didRecord() {
    guard state.hasUnrecordedChanges else { return }
    state.record()
    let due = acknowledgesAtOnce ? state.acknowledgement() : state.acknowledgementDue()
    if let due { acknowledge(due) }
  }

  /// Acknowledges the applied events that are not acknowledged yet.
  func acknowledge() {
    if let header = state.acknowledgement() { acknowledge(header) }
  }

  private func acknowledge(_ header: FrameHeader) {
    inbox.send(header, to: senderRoutingID)
    Failpoint.hit(.ackAfter)
  }

  func close() { inbox.send(state.close(), to: senderRoutingID) }

  private func perform(_ actions: [InPipeStateMachine.Action]) {
    for action in actions {
      switch action {
      case .send(let header): inbox.send(header, to: senderRoutingID)
      case .welcome(let header, let stream):
        inbox.send(
          header, body: withUnsafeBytes(of: stream.littleEndian, Array.init), to: senderRoutingID)
        Failpoint.hit(.welcomeAfter)
      case .report(let gap):
        gapCount += 1
        log.warning("pipe '\(name)': \(gap)")
      case .take: break
      }
    }
  }
}
