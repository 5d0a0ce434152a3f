import PipeJournal
import PipeSystem
import PipeTransport
import PipeWire

/// The receiving end of a pipe at a node's inbox.
final class InPipe: Touchable {
  let name: String
  let onRefused: RefusalPolicy
  /// The number of refused events that were dropped, because of `on_refused: ignore`.
  var ignored: UInt64 = 0
  /// The sender's routing id at the inbox.
  let peer: [UInt8]
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var state: InPipeStateMachine
  @exclusivity(unchecked)
  var isTouched = false
  /// The pipe's index among the pipes of its content.
  var index = 0
  private(set) var gaps: UInt64 = 0
  private let inbox: Socket
  private let touched: TouchedPipes<InPipe>
  private let log: NodeLog
  /// Whether events are acknowledged right after they are recorded, because the sender waits for that.
  var acknowledgesAtOnce = false
  /// The position that the journal has recorded.
  private var recorded: (stream: UInt64, applied: UInt64, closed: Bool)?

  init(
    _ configuration: NodeConfiguration.In, session: UInt64, restored: JournalContents.Consumed?,
    inbox: Socket, among touched: TouchedPipes<InPipe>, log: NodeLog
  ) {
    name = configuration.name
    onRefused = configuration.onRefused
    peer = Array(WireName.pipe(configuration.name).utf8)
    if configuration.isDurable, let restored {
      state = InPipeStateMachine(
        capacity: configuration.capacity, session: session, stream: restored.stream,
        applied: restored.applied, postponed: UInt64(restored.postponed.count),
        senderClosed: restored.closed)
      recorded = (restored.stream, restored.applied, restored.closed)
    } else {
      state = InPipeStateMachine(
        capacity: configuration.capacity, session: session, isDurable: configuration.isDurable)
    }
    self.inbox = inbox
    self.touched = touched
    self.log = log
  }

  func connected() {
    touched.touch(self)
    perform(state.connected())
  }

  /// - Parameter waiting: The number of events that have arrived and are neither applied nor
  ///   refused for good.
  func status(waiting: Int) -> NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: name, events: state.received, applied: state.applied, waiting: waiting,
      capacity: Int(state.capacity), ignored: onRefused == .ignore ? ignored : nil)
  }

  func opened(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    guard body.count == 8, header.sequence > 0 else { throw .body(.open) }
    touched.touch(self)
    perform(
      state.opened(
        session: header.number,
        stream: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)),
        first: header.sequence, lost: header.count,
        wasRedirected: header.flags & InPipeStateMachine.redirectedFlag != 0))
  }

  /// Hands the new events of a batch to `accept`.
  func arrived(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, accept: FrequentCalls.Accept
  ) throws(FrameError) {
    touched.touch(self)
    let before = state
    let actions = state.arrived(
      session: header.number, first: header.sequence, count: header.count)
    for action in actions {
      guard case .take(let duplicateCount, let first) = action else {
        perform([action])
        continue
      }
      do {
        try accept(
          ArrivedEvents(
            in: body, count: header.count, duplicateCount: duplicateCount, first: first), self)
      } catch {
        // None of the events was taken: the sequence number does not advance.
        state = before
        throw error
      }
    }
  }

  func senderSaidGoodbye(_ header: FrameHeader) {
    touched.touch(self)
    state.senderSaidGoodbye(session: header.number)
  }

  /// Finishes the event with this number, which is applied or refused for good.
  func finish(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.finish(sequence, of: stream)
  }

  /// Postpones the event with this number until the state changes.
  func postpone(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.postpone(sequence, of: stream)
  }

  /// Finishes a postponed event, which is applied or refused for good.
  func finishPostponed(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.finishPostponed(sequence, of: stream)
  }

  /// Keeps the event with this number, which is queued among the events of other pipes, until
  /// ``finishKept()``.
  func keep(_ sequence: UInt64, of stream: UInt64) {
    touched.touch(self)
    state.keep(sequence, of: stream)
  }

  /// Finishes the first of the kept events, which is applied.
  func finishKept() {
    touched.touch(self)
    state.finishKept()
  }

  // MARK: Records

  /// Whether the pipe has a change that must be recorded.
  var hasUnrecordedChanges: Bool {
    guard state.isDurable else { return false }
    return state.hasUnrecordedChanges || (recorded.map { $0.closed != state.senderClosed } ?? false)
  }

  /// Whether the next record needs no entry for this pipe.
  var isRecorded: Bool {
    guard state.isDurable, state.stream != 0 else { return true }
    return recorded.map { $0 == position } ?? false
  }

  private var position: (stream: UInt64, applied: UInt64, closed: Bool) {
    (state.stream, state.finished, state.senderClosed)
  }

  func record(into journal: Journal) throws {
    guard !isRecorded else { return }
    let next = position
    try journal.consumed(
      name, stream: next.stream, applied: next.applied, closed: next.closed)
    recorded = next
  }

  /// Notes that finished events are recorded, and acknowledges them if that is due.
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
    inbox.send(header, to: peer)
    Failpoint.hit(.ackAfter)
  }

  func close() { inbox.send(state.close(), to: peer) }

  private func perform(_ actions: [InPipeStateMachine.Action]) {
    for action in actions {
      switch action {
      case .send(let header): inbox.send(header, to: peer)
      case .welcome(let header, let stream):
        inbox.send(
          header, body: withUnsafeBytes(of: stream.littleEndian, Array.init), to: peer)
        Failpoint.hit(.welcomeAfter)
      case .report(let gap):
        gaps += 1
        log.warning("pipe '\(name)': \(gap)")
      case .take: break
      }
    }
  }
}
