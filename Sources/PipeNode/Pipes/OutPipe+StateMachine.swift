import PipeWire

/// The sending end of a pipe, as a value: what is queued, recorded, sent, acknowledged and allowed.
///
/// It stands still until the receiver welcomes it, sends no further than the credit and the record
/// reach, and keeps each event until it is acknowledged.
package struct OutPipeStateMachine: Sendable {
  /// What the shell must do, in order.
  package enum Action: Hashable, Sendable {
    /// Send a frame without a body; the pipe's name is the socket's routing id.
    case send(FrameHeader)
    /// Say from which event of which stream on this end goes on.
    case open(FrameHeader, stream: UInt64)
    /// Send the events.
    case sendBatch(EventBatch, session: UInt64)
    /// Events that the receiver may not have taken are gone with it.
    case report(lost: UInt64, through: UInt64)
    /// The receiver holds events of this stream that this end does not know: its record is an old one.
    case isBehind(received: UInt64)
  }

  /// Where the conversation stands.
  package enum Phase: Hashable, Sendable {
    /// No receiver has welcomed this end yet, or the last one is gone.
    case waiting
    /// The receiver's session is open.
    case open(session: UInt64)
    /// This end has said goodbye.
    case closed
  }

  /// Events that may be queued or under way. Unit: events.
  package let capacity: UInt64
  /// Names the numbering of the events: the same for as long as it goes on.
  package let stream: UInt64
  /// Whether an event must be recorded before it is sent.
  package let isDurable: Bool
  package private(set) var phase: Phase = .waiting
  /// The last event queued.
  package private(set) var queued: UInt64 = 0
  /// The last event that may be sent as far as the record goes.
  package private(set) var recorded: UInt64 = 0
  /// The last event sent in this session.
  package private(set) var sent: UInt64 = 0
  /// The last event that the receiver has said it applied.
  package private(set) var acknowledged: UInt64 = 0
  /// The last event that the receiver allows.
  package private(set) var limit: UInt64 = 0
  private var batches: [EventBatch] = []
  private var firstUnsent = 0
  private var byteCount = 0
  private var lastSession: UInt64?
  private var saidGoodbye = false
  /// The last event that went to another receiver, to which the pipe led before.
  private var turnedAfter: UInt64 = 0

  /// Bytes that may wait before the pipe counts as full, whatever its capacity in events.
  package static let byteLimit = 32 << 20
  private static let batchByteLimit = 60_000

  package init(capacity: Int, stream: UInt64, isDurable: Bool = false) {
    self.capacity = UInt64(capacity)
    self.stream = stream
    self.isDurable = isDurable
  }

  /// Goes on where an earlier process was recorded to be, with the events after `acknowledged`.
  /// - Parameter turnedAfter: The last event that went to another receiver, to which the pipe led before.
  package init(
    capacity: Int, stream: UInt64, acknowledged: UInt64, turnedAfter: UInt64 = 0,
    events: some Sequence<some Collection<UInt8>>
  ) {
    self.init(capacity: capacity, stream: stream, isDurable: true)
    self.turnedAfter = turnedAfter
    queued = acknowledged
    self.acknowledged = acknowledged
    sent = acknowledged
    limit = acknowledged
    for event in events { enqueue { $0 += event } }
    recorded = queued
  }

  /// Whether the node must take no further input until the receiver has caught up.
  package var isFull: Bool {
    queued - acknowledged >= capacity || byteCount >= Self.byteLimit
  }

  /// Events that are queued or under way. Unit: events.
  package var pending: UInt64 { queued - acknowledged }

  /// Whether any receiver has welcomed this end yet.
  package var hasMet: Bool { lastSession != nil }

  /// Queues the event that `write` appends.
  package mutating func enqueue(_ write: (inout [UInt8]) throws -> Void) rethrows {
    let atMost = max(1, min(256, capacity / 2))
    if firstUnsent == batches.count || batches[batches.count - 1].count >= atMost
      || batches[batches.count - 1].bytes.count >= Self.batchByteLimit
    {
      batches.append(EventBatch(first: queued + 1))
    }
    let last = batches.count - 1
    let before = batches[last].bytes.count
    do { try batches[last].append(write) } catch {
      if batches[last].count == 0 { batches.removeLast() }
      throw error
    }
    byteCount += batches[last].bytes.count - before
    queued += 1
  }

  /// What is queued is recorded, or needs no record.
  package mutating func record() { recorded = queued }

  /// Hands out what the credit and the record allow; called once a turn, so that events share a
  /// message.
  package mutating func flush() -> [Action] {
    guard case .open(let session) = phase else { return [] }
    let end = min(limit, recorded)
    var actions: [Action] = []
    while firstUnsent < batches.count, batches[firstUnsent].first <= end {
      if batches[firstUnsent].last > end { splitFirstUnsent(after: end) }
      actions.append(.sendBatch(batches[firstUnsent], session: session))
      sent = batches[firstUnsent].last
      firstUnsent += 1
    }
    return actions
  }

  /// The receiver has taken the connection: it holds every event of `stream` through `received`.
  /// - Parameter isDurable: Whether it has recorded whatever it will not take again.
  package mutating func welcomed(
    session: UInt64, stream: UInt64, received: UInt64, window: UInt32, isDurable: Bool
  ) -> [Action] {
    guard phase != .closed else { return [] }
    guard stream != self.stream || received <= queued else {
      return [.isBehind(received: received)]
    }
    var actions: [Action] = []
    var lost: UInt64 = 0
    var wentElsewhere = false
    if stream == self.stream, received < acknowledged {
      lost = acknowledged - received
      wentElsewhere = acknowledged <= turnedAfter
      // It has gone back to an older record; what it had acknowledged is not here any more.
      if !wentElsewhere {
        actions.append(
          .report(lost: acknowledged - max(received, turnedAfter), through: acknowledged))
      }
    }
    var known = acknowledged
    if stream == self.stream || isDurable || saidGoodbye || lastSession == session
      || lastSession == nil
    {
      // What this receiver does not have is sent, or sent again.
      if stream == self.stream { known = max(received, known) }
      firstUnsent = batches.firstIndex { $0.last > known } ?? batches.count
    } else {
      lost = sent - acknowledged
      if lost > 0 { actions.append(.report(lost: lost, through: sent)) }
      acknowledge(through: sent)
      known = acknowledged
      firstUnsent = 0
    }
    saidGoodbye = false
    lastSession = session
    phase = .open(session: session)
    limit = acknowledged + UInt64(window)
    // Of a batch that it holds in part the receiver passes over what lies before `first`.
    let first = known + 1
    sent = known
    actions.append(
      .open(
        FrameHeader(
          .open, flags: wentElsewhere ? InPipeStateMachine.elsewhereFlag : 0,
          count: UInt32(clamping: lost), sequence: first, number: session),
        stream: self.stream))
    return actions + flush()
  }

  /// The receiver has applied every event through `applied` and allows `window` more.
  package mutating func credited(
    session: UInt64, applied: UInt64, window: UInt32
  ) -> [Action] {
    guard case .open(session) = phase, applied <= sent else { return [] }
    acknowledge(through: applied)
    limit = max(limit, applied + UInt64(window))
    return flush()
  }

  /// The connection is gone: nothing more is sent before a receiver has welcomed this end again.
  package mutating func disconnected() {
    if case .open = phase { phase = .waiting }
  }

  /// The receiver stops in order; it has applied every event through `applied`. That it is gone may have
  /// been noticed before its goodbye was read.
  package mutating func receiverClosed(session: UInt64, applied: UInt64) {
    guard phase != .closed, lastSession == session, applied <= sent else { return }
    acknowledge(through: applied)
    saidGoodbye = true
    phase = .waiting
  }

  /// This node stops in order: says goodbye. What is pending and not recorded is lost with this
  /// process.
  package mutating func close() -> [Action] {
    guard case .open(let session) = phase else {
      phase = .closed
      return []
    }
    phase = .closed
    return [.send(FrameHeader(.close, sequence: sent, number: session))]
  }

  private mutating func acknowledge(through sequence: UInt64) {
    guard sequence > acknowledged else { return }
    acknowledged = sequence
    let done = batches.prefix { $0.last <= sequence }
    byteCount -= done.reduce(0) { $0 + $1.bytes.count }
    firstUnsent = max(0, firstUnsent - done.count)
    batches.removeFirst(done.count)
  }

  /// Makes two batches of the first that is not sent: a small window must not wait for a large batch.
  private mutating func splitFirstUnsent(after sequence: UInt64) {
    let rest = batches[firstUnsent].split(after: sequence)
    batches.insert(rest, at: firstUnsent + 1)
  }
}
