import PipeWire

/// The receiving end of a pipe, as a value. It decides which events are new, repeated or missing,
/// what is recorded, and when to acknowledge.
///
/// An event passes `received`, `finished` and `applied`: it has arrived; it is applied, refused for
/// good or postponed; that outcome is recorded. Only recorded events are acknowledged.
package struct InPipeStateMachine: Sendable {
  /// An action that the shell must perform, in order.
  package enum Action: Hashable, Sendable {
    /// Send a frame back to the sender.
    case send(FrameHeader)
    /// Welcome the sender, with the stream and the last event that arrived.
    case welcome(FrameHeader, stream: UInt64)
    /// Take the events of the batch from this index on.
    case take(from: Int, first: UInt64)
    /// Report missing events.
    case report(Gap)
  }

  /// Missing events.
  package enum Gap: Hashable, Sendable, CustomStringConvertible {
    /// Events sent to an earlier incarnation of this node, which did not acknowledge them.
    case lostWithReceiver(count: UInt64, through: UInt64)
    /// The sender restarted without its queue. Events after this one that it had not sent are lost.
    case senderRestarted(after: UInt64)
    /// Events that this node acknowledged before it went back to an older record.
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

  /// The flag in `welcome` of a receiver that records the events that it applies.
  package static let durableFlag: UInt8 = 1
  /// The flag in `open` of a sender whose pipe had another receiver in between. The events that it
  /// leaves out are not missing here.
  package static let redirectedFlag: UInt8 = 1

  /// The maximum number of events that the sender may have in flight. Unit: events.
  package let capacity: UInt64
  /// This node's incarnation. Frames that name another incarnation are stale.
  package let session: UInt64
  /// Whether applied events outlive this process.
  package let isDurable: Bool
  /// The last event received in order.
  package private(set) var received: UInt64 = 0
  /// The last event up to which all events are finished.
  package private(set) var finished: UInt64 = 0
  /// The last event up to which all events are finished and recorded.
  package private(set) var applied: UInt64 = 0
  /// The number of finished events that are kept here until the state changes. Unit: events.
  package private(set) var postponed: UInt64 = 0
  /// The number of repeated events, and of frames of an earlier session. Unit: events and frames.
  package private(set) var repeated: UInt64 = 0
  /// The stream that the sender numbers its events in; 0 if there is none yet.
  package private(set) var stream: UInt64 = 0
  package private(set) var senderClosed = false
  /// The last event that was acknowledged to the sender.
  package private(set) var acknowledged: UInt64 = 0
  /// The last event that the sender was allowed to send.
  private var announcedLimit: UInt64 = 0
  private var opening = OpeningPhase.unannounced
  private var outOfOrder: Set<UInt64> = []

  package init(capacity: Int, session: UInt64, isDurable: Bool = false) {
    self.capacity = UInt64(capacity)
    self.session = session
    self.isDurable = isDurable
    announcedLimit = self.capacity
  }

  /// Resumes from the record of an earlier process.
  package init(
    capacity: Int, session: UInt64, stream: UInt64, applied: UInt64, postponed: UInt64,
    senderClosed: Bool
  ) {
    self.init(capacity: capacity, session: session, isDurable: true)
    self.stream = stream
    self.postponed = postponed
    self.senderClosed = senderClosed
    reset(to: applied)
  }

  /// Whether finished events are not recorded yet.
  package var hasUnrecordedChanges: Bool { finished > applied }

  /// Handles a new connection of the sender, the first or a later one.
  package mutating func connected() -> [Action] { [welcome()] }

  /// Handles the sender's `open`: it continues with event `first` of a stream, and `lost` events
  /// before that are gone.
  /// - Parameter wasRedirected: Whether another receiver had the lost events.
  package mutating func opened(
    session: UInt64, stream: UInt64, first: UInt64, lost: UInt32, wasRedirected: Bool = false
  ) -> [Action] {
    // An `open` that answers the welcome of an earlier incarnation may have waited in the sender's
    // queue.
    guard session == self.session else {
      repeated += 1
      return []
    }
    var actions: [Action] = []
    if stream == self.stream {
      if first > received + 1 {
        // The sender left events out. Another welcome asks for them, unless the sender does not
        // have them any more.
        guard UInt64(lost) >= first - received - 1 else { return [welcome()] }
        if !wasRedirected {
          actions.append(.report(.forgotten(from: received + 1, through: first - 1)))
        }
        reset(to: first - 1)
      }
      if applied > 0 { actions.append(credit) }
    } else {
      if self.stream != 0 {
        if !senderClosed { actions.append(.report(.senderRestarted(after: received))) }
      } else if lost > 0 {
        actions.append(.report(.lostWithReceiver(count: UInt64(lost), through: first - 1)))
      }
      reset(to: first - 1)
      self.stream = stream
    }
    senderClosed = false
    opening = .open
    return actions
  }

  /// Handles a batch that has arrived.
  package mutating func arrived(
    session: UInt64, first: UInt64, count: UInt32
  ) -> [Action] {
    guard session == self.session, opening == .open else {
      repeated += 1
      // Events that were in flight at the welcome come again after the sender's `open`. If each of
      // these batches were answered with a welcome, each welcome would make the sender repeat all
      // events in flight.
      return opening == .unannounced ? [welcome()] : []
    }
    let (end, isOverflow) = first.addingReportingOverflow(UInt64(count))
    let last = end &- 1
    guard first > 0, count > 0, !isOverflow, first <= received + 1 else { return [welcome()] }
    guard last > received else {
      repeated += UInt64(count)
      return [credit]
    }
    let duplicateCount = received + 1 - first
    repeated += duplicateCount
    defer { received = last }
    return [.take(from: Int(duplicateCount), first: first + duplicateCount)]
  }

  /// Handles the goodbye of a sender that stops gracefully.
  package mutating func senderSaidGoodbye(session: UInt64) {
    if session == self.session { senderClosed = true }
  }

  /// Marks the event as applied, or refused for good: it need not be sent again.
  /// - Parameter stream: The stream of the event. The number of the event means nothing in another
  ///   stream.
  package mutating func finish(_ sequence: UInt64, of stream: UInt64) {
    guard stream == self.stream, sequence > finished else { return }
    if sequence == finished + 1 {
      finished = sequence
      while !outOfOrder.isEmpty, outOfOrder.remove(finished + 1) != nil { finished += 1 }
    } else {
      outOfOrder.insert(sequence)
    }
  }

  /// Postpones the event. In a durable pipe, the event is recorded here: it need not be sent again,
  /// and still uses capacity. In any other pipe, the event stays with its sender.
  package mutating func postpone(_ sequence: UInt64, of stream: UInt64) {
    if isDurable { keep(sequence, of: stream) }
  }

  /// Keeps an event that is queued among the events of other pipes. It need not be sent again, and
  /// uses capacity until ``finishKept()``.
  package mutating func keep(_ sequence: UInt64, of stream: UInt64) {
    finish(sequence, of: stream)
    postponed += 1
  }

  /// Finishes the first of the kept events, which is applied.
  package mutating func finishKept() { postponed -= min(postponed, 1) }

  /// Finishes a postponed event, which is applied or refused for good.
  package mutating func finishPostponed(_ sequence: UInt64, of stream: UInt64) {
    if isDurable { finishKept() } else { finish(sequence, of: stream) }
  }

  /// Notes that all finished events are recorded, or need no record.
  package mutating func record() { applied = finished }

  /// Returns the acknowledgement that is due because a quarter of the window is used, or `nil`.
  package mutating func acknowledgementDue() -> FrameHeader? {
    let quarter = max(1, capacity / 4)
    let newCredit = limit - min(announcedLimit, limit)
    guard max(newCredit, applied - acknowledged) >= quarter else { return nil }
    return acknowledgement()
  }

  /// Whether the sender has not received the latest acknowledgement or window.
  package var hasPendingAcknowledgement: Bool { applied > acknowledged || limit > announcedLimit }

  /// Returns the acknowledgement of all applied events, or `nil` if the sender has received it
  /// already.
  package mutating func acknowledgement() -> FrameHeader? {
    guard hasPendingAcknowledgement else { return nil }
    announcedLimit = limit
    acknowledged = applied
    return creditHeader
  }

  /// Returns the goodbye of a node that stops gracefully.
  package func close() -> FrameHeader {
    FrameHeader(.closed, sequence: applied, number: session)
  }

  private mutating func reset(to sequence: UInt64) {
    received = sequence
    finished = sequence
    applied = sequence
    outOfOrder = []
    acknowledged = sequence
    announcedLimit = limit
  }

  /// The last event that the sender may send. It may go back a little until postponed events are
  /// recorded.
  private var limit: UInt64 { applied + min(window, UInt64.max - applied) }

  private var window: UInt64 { capacity - min(postponed, capacity) }

  private mutating func welcome() -> Action {
    opening = .welcomed
    return .welcome(
      FrameHeader(
        .welcome, flags: isDurable ? Self.durableFlag : 0, count: UInt32(clamping: window),
        sequence: received, number: session),
      stream: stream)
  }

  private var credit: Action { .send(creditHeader) }

  private var creditHeader: FrameHeader {
    FrameHeader(.credit, count: UInt32(clamping: window), sequence: applied, number: session)
  }
}
