import PipeWire

/// The receiving end of a pipe, as a pure value. It decides which events are new, repeated or
/// missing, what to record, and when to acknowledge.
///
/// Three counters show the progress. Events up to number `lastReceived` have arrived. Events up to
/// `lastFinished` have an outcome: applied, permanently refused, or postponed. For events up to
/// `lastApplied`, the outcome is also recorded. Only these events are acknowledged.
package struct InPipeStateMachine: Sendable {
  /// An action that the owner, an ``InPipe``, must perform. Actions must be performed in order.
  package enum Action: Hashable, Sendable {
    /// Send this frame to the sender.
    case send(FrameHeader)
    /// Welcome the sender, with its stream and the number of the last event that has arrived.
    case welcome(FrameHeader, stream: UInt64)
    /// Accept the events of the batch from index `from` on. The event at this index has the number
    /// `first`.
    case take(from: Int, first: UInt64)
    /// Report missing events.
    case report(Gap)
  }

  /// A gap in the numbering of a sender's events.
  package enum Gap: Hashable, Sendable, CustomStringConvertible {
    /// Events were sent to an earlier incarnation of this node, which did not acknowledge them.
    case lostWithReceiver(count: UInt64, through: UInt64)
    /// The sender has restarted and has lost its queue. The queued events with numbers above
    /// `after` are lost.
    case senderRestarted(after: UInt64)
    /// This node had acknowledged events that its journal lacks, because an older journal was
    /// restored.
    case forgotten(from: UInt64, through: UInt64)

    package var description: String {
      switch self {
      case .lostWithReceiver(let count, let through):
        "gap: up to \(count) events before number \(through + 1) were in flight when this node "
          + "died, and are lost"
      case .senderRestarted(let after):
        "gap: the sender died after event \(after) and restarted; its queued events are lost"
      case .forgotten(let from, let through):
        "gap: events \(from) to \(through) were acknowledged, but are missing in this node's "
          + "journal"
      }
    }
  }

  /// The progress of opening a connection.
  private enum OpeningPhase { case unannounced, welcomed, open }

  /// The flag of a `welcome` frame: the receiver records the events that it applies.
  package static let durableFlag: UInt8 = 1
  /// The flag of an `open` frame: the events that the sender leaves out are not lost, because they
  /// went to another receiver of the pipe.
  package static let redirectedFlag: UInt8 = 1

  /// The maximum number of events that the sender may have in flight. Unit: events.
  package let capacity: UInt64
  /// This node's incarnation. A frame with another incarnation is stale.
  package let session: UInt64
  /// Whether applied events are recorded and so survive the end of this process.
  package let isDurable: Bool
  /// The number of the last event that has arrived in order.
  package private(set) var lastReceived: UInt64 = 0
  /// The highest number up to which all events are finished.
  package private(set) var lastFinished: UInt64 = 0
  /// The highest number up to which all events are finished and recorded.
  package private(set) var lastApplied: UInt64 = 0
  /// The number of events that count as finished although they are postponed: this node keeps them
  /// until the state changes. Unit: events.
  package private(set) var postponedCount: UInt64 = 0
  /// The number of events that arrived again, plus the number of frames from an earlier session.
  /// Unit: events and frames.
  package private(set) var repeatedCount: UInt64 = 0
  /// The id of the sender's numbering of events; 0 before the first `open`.
  package private(set) var stream: UInt64 = 0
  package private(set) var senderClosed = false
  /// The number of the last event that was acknowledged to the sender.
  package private(set) var lastAcknowledged: UInt64 = 0
  /// The highest event number that the sender has been allowed to send.
  private var announcedLimit: UInt64 = 0
  private var openingPhase = OpeningPhase.unannounced
  private var outOfOrderNumbers: Set<UInt64> = []

  package init(capacity: Int, session: UInt64, isDurable: Bool = false) {
    self.capacity = UInt64(capacity)
    self.session = session
    self.isDurable = isDurable
    announcedLimit = self.capacity
  }

  /// Resumes a pipe with the progress that an earlier process has recorded.
  package init(
    capacity: Int, session: UInt64, stream: UInt64, lastApplied: UInt64, postponedCount: UInt64,
    senderClosed: Bool
  ) {
    self.init(capacity: capacity, session: session, isDurable: true)
    self.stream = stream
    self.postponedCount = postponedCount
    self.senderClosed = senderClosed
    reset(to: lastApplied)
  }

  /// Whether events are finished that are not recorded yet.
  package var hasUnrecordedChanges: Bool { lastFinished > lastApplied }

  /// Handles a new connection of the sender, whether its first connection or a reconnection.
  package mutating func connected() -> [Action] { [welcome()] }

  /// Handles an `open` frame. The sender continues with event `first` of `stream`, and no longer
  /// has the `lost` events before `first`.
  /// - Parameter wasRedirected: Whether these `lost` events went to another receiver of the pipe.
  package mutating func opened(
    session: UInt64, stream: UInt64, first: UInt64, lost: UInt32, wasRedirected: Bool = false
  ) -> [Action] {
    // The frame answers a welcome of an earlier incarnation of this node, and was delayed in the
    // sender's queue.
    guard session == self.session else {
      repeatedCount += 1
      return []
    }
    var actions: [Action] = []
    if stream == self.stream {
      if first > lastReceived + 1 {
        // The sender has left out events. Another welcome requests these events, unless the sender
        // no longer has them.
        guard UInt64(lost) >= first - lastReceived - 1 else { return [welcome()] }
        if !wasRedirected {
          actions.append(.report(.forgotten(from: lastReceived + 1, through: first - 1)))
        }
        reset(to: first - 1)
      }
      if lastApplied > 0 { actions.append(creditAction) }
    } else {
      if self.stream != 0 {
        if !senderClosed { actions.append(.report(.senderRestarted(after: lastReceived))) }
      } else if lost > 0 {
        actions.append(.report(.lostWithReceiver(count: UInt64(lost), through: first - 1)))
      }
      reset(to: first - 1)
      self.stream = stream
    }
    senderClosed = false
    openingPhase = .open
    return actions
  }

  /// Handles a batch of `count` events, which begins with event `first`.
  package mutating func arrived(
    session: UInt64, first: UInt64, count: UInt32
  ) -> [Action] {
    guard session == self.session, openingPhase == .open else {
      repeatedCount += 1
      // Between this node's welcome and the sender's `open`, events are dropped, because the sender
      // repeats them after its `open`. If this node answered dropped events with another welcome,
      // the sender would repeat all events in flight once more.
      return openingPhase == .unannounced ? [welcome()] : []
    }
    let (end, isOverflow) = first.addingReportingOverflow(UInt64(count))
    let last = end &- 1
    guard first > 0, count > 0, !isOverflow, first <= lastReceived + 1 else { return [welcome()] }
    guard last > lastReceived else {
      repeatedCount += UInt64(count)
      return [creditAction]
    }
    let duplicateCount = lastReceived + 1 - first
    repeatedCount += duplicateCount
    defer { lastReceived = last }
    return [.take(from: Int(duplicateCount), first: first + duplicateCount)]
  }

  /// Handles the goodbye of a sender that has stopped gracefully.
  package mutating func senderSaidGoodbye(session: UInt64) {
    if session == self.session { senderClosed = true }
  }

  /// Marks an event as finished: applied or permanently refused. The sender does not have to send
  /// this event again.
  /// - Parameter stream: The stream in which the event has the number `sequence`. In another
  ///   stream, the number belongs to another event.
  package mutating func finish(_ sequence: UInt64, of stream: UInt64) {
    guard stream == self.stream, sequence > lastFinished else { return }
    if sequence == lastFinished + 1 {
      lastFinished = sequence
      while !outOfOrderNumbers.isEmpty, outOfOrderNumbers.remove(lastFinished + 1) != nil {
        lastFinished += 1
      }
    } else {
      outOfOrderNumbers.insert(sequence)
    }
  }

  /// Postpones an event. In a durable pipe, this node records the event, so the sender does not
  /// have to send it again, but the event still uses capacity. In any other pipe, the event remains
  /// in the sender's queue.
  package mutating func postpone(_ sequence: UInt64, of stream: UInt64) {
    if isDurable { hold(sequence, of: stream) }
  }

  /// Holds an event in a queue that several pipes share. The sender does not have to send this
  /// event again, but the event uses capacity until ``releaseHeld()``.
  package mutating func hold(_ sequence: UInt64, of stream: UInt64) {
    finish(sequence, of: stream)
    postponedCount += 1
  }

  /// Frees the capacity of one held event, because it was applied.
  package mutating func releaseHeld() { postponedCount -= min(postponedCount, 1) }

  /// Finishes a postponed event, because it was applied or permanently refused.
  package mutating func finishPostponed(_ sequence: UInt64, of stream: UInt64) {
    if isDurable { releaseHeld() } else { finish(sequence, of: stream) }
  }

  /// Notes that all finished events are recorded, or that there is no journal.
  package mutating func record() { lastApplied = lastFinished }

  /// Returns an acknowledgement if one is due; otherwise `nil`. An acknowledgement is due if it
  /// would acknowledge, or newly allow, at least a quarter of the capacity.
  package mutating func acknowledgementDue() -> FrameHeader? {
    let quarter = max(1, capacity / 4)
    let newCredit = sendLimit - min(announcedLimit, sendLimit)
    guard max(newCredit, lastApplied - lastAcknowledged) >= quarter else { return nil }
    return acknowledgement()
  }

  /// Whether an acknowledgement or a credit must still be sent to the sender.
  package var hasPendingAcknowledgement: Bool {
    lastApplied > lastAcknowledged || sendLimit > announcedLimit
  }

  /// Returns the acknowledgement of all applied events; `nil` if it was sent already.
  package mutating func acknowledgement() -> FrameHeader? {
    guard hasPendingAcknowledgement else { return nil }
    announcedLimit = sendLimit
    lastAcknowledged = lastApplied
    return creditHeader
  }

  /// Returns the goodbye frame of a node that stops gracefully.
  package func close() -> FrameHeader {
    FrameHeader(.closed, sequence: lastApplied, incarnationOrSession: session)
  }

  private mutating func reset(to sequence: UInt64) {
    lastReceived = sequence
    lastFinished = sequence
    lastApplied = sequence
    outOfOrderNumbers = []
    lastAcknowledged = sequence
    announcedLimit = sendLimit
  }

  /// The highest event number that the sender may send. When an event is postponed, the limit
  /// decreases until the journal has recorded the postponement.
  private var sendLimit: UInt64 { lastApplied + min(creditWindow, UInt64.max - lastApplied) }

  private var creditWindow: UInt64 { capacity - min(postponedCount, capacity) }

  private mutating func welcome() -> Action {
    openingPhase = .welcomed
    return .welcome(
      FrameHeader(
        .welcome, flags: isDurable ? Self.durableFlag : 0, count: UInt32(clamping: creditWindow),
        sequence: lastReceived, incarnationOrSession: session),
      stream: stream)
  }

  private var creditAction: Action { .send(creditHeader) }

  private var creditHeader: FrameHeader {
    FrameHeader(
      .credit, count: UInt32(clamping: creditWindow), sequence: lastApplied,
      incarnationOrSession: session)
  }
}
