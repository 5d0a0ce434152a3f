/// The receiving end of a pipe, as a value: which events are new, which are repeated or missing,
/// what is applied, and when to say so.
package struct InPipeStateMachine: Sendable {
  /// What the shell must do, in order.
  package enum Action: Hashable, Sendable {
    /// Send a frame back to the sender.
    case send(FrameHeader)
    /// Take the events from the one at this place in the batch on.
    case take(from: Int, first: UInt64)
    /// Events are missing: what is known of them.
    case report(Gap)
  }

  /// Events that never arrived.
  package enum Gap: Hashable, Sendable, CustomStringConvertible {
    /// Sent to an earlier incarnation of this node, which did not acknowledge them.
    case lostWithReceiver(count: UInt64, through: UInt64)
    /// The sender died; what it had not sent after this event is gone with it.
    case senderRestarted(after: UInt64)

    package var description: String {
      switch self {
      case .lostWithReceiver(let count, let through):
        "gap: up to \(count) events before number \(through + 1) were under way when this node "
          + "died, and are lost"
      case .senderRestarted(let after):
        "gap: the sender died after event \(after); what it had queued is lost"
      }
    }
  }

  /// Events that the sender may have under way. Unit: events.
  package let capacity: UInt64
  /// This node's incarnation; frames that name another one are stale.
  package let session: UInt64
  /// The last event received in order.
  package private(set) var received: UInt64 = 0
  /// The last event of which all up to it are applied.
  package private(set) var applied: UInt64 = 0
  /// The last event acknowledged to the sender.
  package private(set) var acknowledged: UInt64 = 0
  /// Frames of an earlier session and repeated events. Unit: events and frames.
  package private(set) var repeated: UInt64 = 0
  private var sender: UInt64?
  private var senderClosed = false
  private var isOpen = false
  private var outOfOrder: Set<UInt64> = []

  package init(capacity: Int, session: UInt64) {
    self.capacity = UInt64(capacity)
    self.session = session
  }

  /// The sender's connection is new, or new again.
  package mutating func connected() -> [Action] {
    isOpen = false
    return [welcome]
  }

  /// The sender goes on with event `first`; `lost` events before it are gone.
  package mutating func opened(
    session: UInt64, incarnation: UInt64, first: UInt64, lost: UInt32
  ) -> [Action] {
    // One that answers the welcome of an earlier incarnation may have waited in the sender's queue.
    guard session == self.session else {
      repeated += 1
      return []
    }
    var actions: [Action] = []
    if let sender, sender != incarnation {
      if !senderClosed { actions.append(.report(.senderRestarted(after: received))) }
      reset(to: first - 1)
    } else if sender == nil {
      if lost > 0 {
        actions.append(.report(.lostWithReceiver(count: UInt64(lost), through: first - 1)))
      }
      reset(to: first - 1)
    } else if first > received + 1 {
      // The same sender left events out: it is asked for them by being welcomed once more.
      return [welcome]
    }
    sender = incarnation
    senderClosed = false
    isOpen = true
    return actions
  }

  /// A batch has arrived.
  package mutating func arrived(
    session: UInt64, first: UInt64, count: UInt32
  ) -> [Action] {
    guard session == self.session, isOpen else {
      repeated += 1
      return isOpen ? [] : [welcome]
    }
    let last = first + UInt64(count) - 1
    guard first <= received + 1 else {
      isOpen = false
      return [welcome]
    }
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
  package mutating func finished(_ sequence: UInt64) {
    guard sequence > applied else { return }
    if sequence == applied + 1 {
      applied = sequence
      while !outOfOrder.isEmpty, outOfOrder.remove(applied + 1) != nil { applied += 1 }
    } else {
      outOfOrder.insert(sequence)
    }
  }

  /// The acknowledgement that is due because a quarter of the window is used, or `nil`.
  package mutating func acknowledgementDue() -> FrameHeader? {
    guard applied - acknowledged >= max(1, capacity / 4) else { return nil }
    return acknowledgement()
  }

  /// The acknowledgement of all that is applied, or `nil` where that is said already.
  package mutating func acknowledgement() -> FrameHeader? {
    guard applied > acknowledged else { return nil }
    acknowledged = applied
    return creditHeader
  }

  /// This node stops in order.
  package func close() -> FrameHeader {
    FrameHeader(.closed, sequence: applied, number: session)
  }

  private mutating func reset(to sequence: UInt64) {
    received = sequence
    applied = sequence
    acknowledged = sequence
    outOfOrder = []
  }

  private var welcome: Action {
    .send(
      FrameHeader(
        .welcome, count: UInt32(clamping: capacity), sequence: received, number: session))
  }

  private var credit: Action { .send(creditHeader) }

  private var creditHeader: FrameHeader {
    FrameHeader(.credit, count: UInt32(clamping: capacity), sequence: applied, number: session)
  }
}
