import PipeWire

/// The receiving end of a pipe, as a value: which events are new, which are repeated or missing,
/// what is recorded, and when to say so.
///
/// An event goes through `received`, `finished` and `applied`: it is here; it is applied, refused for
/// good or put off; that is recorded. Only what is recorded is acknowledged.
package struct InPipeStateMachine: Sendable {
  /// What the shell must do, in order.
  package enum Action: Hashable, Sendable {
    /// Send a frame back to the sender.
    case send(FrameHeader)
    /// Welcome the sender: say how much of which stream is here.
    case welcome(FrameHeader, stream: UInt64)
    /// Take the events from the one at this place in the batch on.
    case take(from: Int, first: UInt64)
    /// Events are missing: what is known of them.
    case report(Gap)
  }

  /// Events that never arrived.
  package enum Gap: Hashable, Sendable, CustomStringConvertible {
    /// Sent to an earlier incarnation of this node, which did not acknowledge them.
    case lostWithReceiver(count: UInt64, through: UInt64)
    /// The sender started anew; what it had not sent after this event is gone with it.
    case senderRestarted(after: UInt64)
    /// Acknowledged by this node, which then went back to an older record.
    case forgotten(from: UInt64, through: UInt64)

    package var description: String {
      switch self {
      case .lostWithReceiver(let count, let through):
        "gap: up to \(count) events before number \(through + 1) were under way when this node "
          + "died, and are lost"
      case .senderRestarted(let after):
        "gap: the sender died after event \(after) and started anew; what it had queued is lost"
      case .forgotten(let from, let through):
        "gap: events \(from) to \(through) were acknowledged, and this node's journal does not "
          + "have them"
      }
    }
  }

  /// Where the opening of a connection stands.
  private enum Opening { case unannounced, welcomed, open }

  /// Set in `welcome` by a receiver that records what it applies.
  package static let durableFlag: UInt8 = 1
  /// Set in `open` by a sender whose pipe led elsewhere meanwhile: what it leaves out is not missing here.
  package static let elsewhereFlag: UInt8 = 1

  /// Events that the sender may have under way. Unit: events.
  package let capacity: UInt64
  /// This node's incarnation; frames that name another one are stale.
  package let session: UInt64
  /// Whether what is applied outlives this process.
  package let isDurable: Bool
  /// The last event received in order.
  package private(set) var received: UInt64 = 0
  /// The last event of which all up to it are finished.
  package private(set) var finished: UInt64 = 0
  /// The last event of which all up to it are finished and recorded.
  package private(set) var applied: UInt64 = 0
  /// Events that are finished, and kept here until the state changes. Unit: events.
  package private(set) var postponed: UInt64 = 0
  /// Frames of an earlier session and repeated events. Unit: events and frames.
  package private(set) var repeated: UInt64 = 0
  /// The numbering that the sender counts in, or 0 while there is none.
  package private(set) var stream: UInt64 = 0
  package private(set) var senderClosed = false
  /// The last event that the sender was told is applied.
  package private(set) var acknowledged: UInt64 = 0
  /// The last event that the sender was told it may send.
  private var announced: UInt64 = 0
  private var opening = Opening.unannounced
  private var outOfOrder: Set<UInt64> = []

  package init(capacity: Int, session: UInt64, isDurable: Bool = false) {
    self.capacity = UInt64(capacity)
    self.session = session
    self.isDurable = isDurable
    announced = self.capacity
  }

  /// Goes on where an earlier process was recorded to be.
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

  /// Whether more is finished than is recorded.
  package var hasUnrecorded: Bool { finished > applied }

  /// The sender's connection is new, or new again.
  package mutating func connected() -> [Action] { [welcome()] }

  /// The sender goes on with event `first` of a stream; `lost` events before it are gone.
  /// - Parameter wentElsewhere: Another receiver had those.
  package mutating func opened(
    session: UInt64, stream: UInt64, first: UInt64, lost: UInt32, wentElsewhere: Bool = false
  ) -> [Action] {
    // One that answers the welcome of an earlier incarnation may have waited in the sender's queue.
    guard session == self.session else {
      repeated += 1
      return []
    }
    var actions: [Action] = []
    if stream == self.stream {
      if first > received + 1 {
        // It left events out: it is asked for them by being welcomed once more, but for those that
        // it does not have any more.
        guard UInt64(lost) >= first - received - 1 else { return [welcome()] }
        if !wentElsewhere {
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

  /// A batch has arrived.
  package mutating func arrived(
    session: UInt64, first: UInt64, count: UInt32
  ) -> [Action] {
    guard session == self.session, opening == .open else {
      repeated += 1
      // What was under way when the sender was welcomed comes again after its `open`: were each of these
      // batches answered by a welcome, each would be answered by all that is under way.
      return opening == .unannounced ? [welcome()] : []
    }
    let (end, isTooFar) = first.addingReportingOverflow(UInt64(count))
    let last = end &- 1
    guard first > 0, count > 0, !isTooFar, first <= received + 1 else { return [welcome()] }
    guard last > received else {
      repeated += UInt64(count)
      return [credit]
    }
    let known = received + 1 - first
    repeated += known
    defer { received = last }
    return [.take(from: Int(known), first: first + known)]
  }

  /// The sender stops in order.
  package mutating func senderSaidGoodbye(session: UInt64) {
    if session == self.session { senderClosed = true }
  }

  /// The event is applied, or refused for good: it needs not be sent again.
  /// - Parameter stream: The numbering that it came in: its number means nothing in another one.
  package mutating func finish(_ sequence: UInt64, of stream: UInt64) {
    guard stream == self.stream, sequence > finished else { return }
    if sequence == finished + 1 {
      finished = sequence
      while !outOfOrder.isEmpty, outOfOrder.remove(finished + 1) != nil { finished += 1 }
    } else {
      outOfOrder.insert(sequence)
    }
  }

  /// The event is put off. One that is recorded here needs not be sent again, and goes on taking
  /// room; any other stays with its sender.
  package mutating func postpone(_ sequence: UInt64, of stream: UInt64) {
    if isDurable { keep(sequence, of: stream) }
  }

  /// The event has its place among those of other pipes: it needs not be sent again, and goes on taking room
  /// until ``finishKept()``.
  package mutating func keep(_ sequence: UInt64, of stream: UInt64) {
    finish(sequence, of: stream)
    postponed += 1
  }

  /// The first of the events that are kept is applied.
  package mutating func finishKept() { postponed -= min(postponed, 1) }

  /// An event that was postponed is applied, or refused for good.
  package mutating func finishPostponed(_ sequence: UInt64, of stream: UInt64) {
    if isDurable { finishKept() } else { finish(sequence, of: stream) }
  }

  /// What is finished is recorded, or needs no record.
  package mutating func record() { applied = finished }

  /// The acknowledgement that is due because a quarter of the window is used, or `nil`.
  package mutating func acknowledgementDue() -> FrameHeader? {
    let quarter = max(1, capacity / 4)
    let granted = limit - min(announced, limit)
    guard max(granted, applied - acknowledged) >= quarter else { return nil }
    return acknowledgement()
  }

  /// Whether the sender has not been told how far this end is.
  package var owesAcknowledgement: Bool { applied > acknowledged || limit > announced }

  /// The acknowledgement of all that is applied, or `nil` where that is said already.
  package mutating func acknowledgement() -> FrameHeader? {
    guard owesAcknowledgement else { return nil }
    announced = limit
    acknowledged = applied
    return creditHeader
  }

  /// This node stops in order.
  package func close() -> FrameHeader {
    FrameHeader(.closed, sequence: applied, number: session)
  }

  private mutating func reset(to sequence: UInt64) {
    received = sequence
    finished = sequence
    applied = sequence
    outOfOrder = []
    acknowledged = sequence
    announced = limit
  }

  /// The last event that the sender may send. It may go back a little until what is postponed is recorded.
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
