import PipeWire

/// The sending end of a pipe, as a value: which events are queued, recorded, sent, acknowledged and
/// allowed.
///
/// It sends nothing until the receiver welcomes it. It sends only events that the receiver's credit
/// and the record cover, and keeps each event until it is acknowledged.
package struct OutPipeStateMachine: Sendable {
  /// An action that the shell must perform, in order.
  package enum Action: Hashable, Sendable {
    /// Send a frame without a body; the pipe's name is the socket's routing id.
    case send(FrameHeader)
    /// Announce the stream, and the first event that this end continues with.
    case open(FrameHeader, stream: UInt64)
    /// Send the events.
    case sendBatch(EventBatch, session: UInt64)
    /// Report events that are lost with the receiver, which may not have taken them.
    case report(lost: UInt64, through: UInt64)
    /// Report that the receiver holds events of this stream that this end does not know: the record
    /// of this end is an old one.
    case reportStaleJournal(received: UInt64)
  }

  /// The phase of the conversation with the receiver.
  package enum Phase: Hashable, Sendable {
    /// No receiver has welcomed this end yet, or the last one is gone.
    case waiting
    /// The receiver's session is open.
    case open(session: UInt64)
    /// This end has said goodbye.
    case closed
  }

  /// The maximum number of events that are queued or in flight. Unit: events.
  package let capacity: UInt64
  /// Identifies the numbering of the events; unchanged as long as the numbering continues.
  package let stream: UInt64
  /// Whether an event must be recorded before it is sent.
  package let isDurable: Bool
  package private(set) var phase: Phase = .waiting
  /// The last event queued.
  package private(set) var queued: UInt64 = 0
  /// The last event that may be sent because it is recorded, or needs no record.
  package private(set) var recorded: UInt64 = 0
  /// The last event sent in this session.
  package private(set) var sent: UInt64 = 0
  /// The last event that the receiver has acknowledged as applied.
  package private(set) var acknowledged: UInt64 = 0
  /// The last event that the receiver allows to be sent.
  package private(set) var limit: UInt64 = 0
  private var batches: [EventBatch] = []
  private var firstUnsent = 0
  private var byteCount = 0
  private var lastSession: UInt64?
  private var receiverSaidGoodbye = false
  /// The last event that went to an earlier receiver of the pipe.
  private var redirectedAfter: UInt64 = 0

  /// The number of queued bytes from which the pipe counts as full, whatever its capacity in
  /// events.
  package static let byteLimit = 32 << 20
  private static let batchByteLimit = 60_000

  package init(capacity: Int, stream: UInt64, isDurable: Bool = false) {
    self.capacity = UInt64(capacity)
    self.stream = stream
    self.isDurable = isDurable
  }

  /// Resumes from the record of an earlier process, with the events after `acknowledged`.
  /// - Parameter redirectedAfter: The last event that went to an earlier receiver of the pipe.
  package init(
    capacity: Int, stream: UInt64, acknowledged: UInt64, redirectedAfter: UInt64 = 0,
    events: some Sequence<some Collection<UInt8>>
  ) {
    self.init(capacity: capacity, stream: stream, isDurable: true)
    self.redirectedAfter = redirectedAfter
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

  /// The number of events that are queued or in flight. Unit: events.
  package var pending: UInt64 { queued - acknowledged }

  /// Whether any receiver has welcomed this end yet.
  package var hasBeenWelcomed: Bool { lastSession != nil }

  /// Queues the event that `write` appends.
  package mutating func enqueue(_ write: (inout [UInt8]) throws -> Void) rethrows {
    let batchCapacity = max(1, min(256, capacity / 2))
    if firstUnsent == batches.count || batches[batches.count - 1].count >= batchCapacity
      || batches[batches.count - 1].bytes.count >= Self.batchByteLimit
    {
      batches.append(EventBatch(first: queued + 1))
    }
    let last = batches.count - 1
    let previousByteCount = batches[last].bytes.count
    do { try batches[last].append(write) } catch {
      if batches[last].count == 0 { batches.removeLast() }
      throw error
    }
    byteCount += batches[last].bytes.count - previousByteCount
    queued += 1
  }

  /// Notes that all queued events are recorded, or need no record.
  package mutating func record() { recorded = queued }

  /// Returns the batches that the credit and the record allow. Called once per turn, so that events
  /// share a message.
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

  /// Handles the receiver's welcome: it holds every event of `stream` through `received`.
  /// - Parameter isDurable: Whether the receiver has recorded all events that it will not take
  ///   again.
  package mutating func welcomed(
    session: UInt64, stream: UInt64, received: UInt64, window: UInt32, isDurable: Bool
  ) -> [Action] {
    guard phase != .closed else { return [] }
    guard stream != self.stream || received <= queued else {
      return [.reportStaleJournal(received: received)]
    }
    var actions: [Action] = []
    var lost: UInt64 = 0
    var wasRedirected = false
    if stream == self.stream, received < acknowledged {
      lost = acknowledged - received
      wasRedirected = acknowledged <= redirectedAfter
      // The receiver went back to an older record. Events that it had acknowledged are no longer
      // here.
      if !wasRedirected {
        actions.append(
          .report(lost: acknowledged - max(received, redirectedAfter), through: acknowledged))
      }
    }
    var lastHeld = acknowledged
    if stream == self.stream || isDurable || receiverSaidGoodbye || lastSession == session
      || lastSession == nil
    {
      // Events that this receiver lacks are sent, or sent again.
      if stream == self.stream { lastHeld = max(received, lastHeld) }
      firstUnsent = batches.firstIndex { $0.last > lastHeld } ?? batches.count
    } else {
      lost = sent - acknowledged
      if lost > 0 { actions.append(.report(lost: lost, through: sent)) }
      acknowledge(through: sent)
      lastHeld = acknowledged
      firstUnsent = 0
    }
    receiverSaidGoodbye = false
    lastSession = session
    phase = .open(session: session)
    limit = acknowledged + UInt64(window)
    // The receiver skips the events before `first` in a batch that it holds in part.
    let first = lastHeld + 1
    sent = lastHeld
    actions.append(
      .open(
        FrameHeader(
          .open, flags: wasRedirected ? InPipeStateMachine.redirectedFlag : 0,
          count: UInt32(clamping: lost), sequence: first, number: session),
        stream: self.stream))
    return actions + flush()
  }

  /// Handles a credit: the receiver has applied every event through `applied` and allows `window`
  /// more.
  package mutating func credited(
    session: UInt64, applied: UInt64, window: UInt32
  ) -> [Action] {
    guard case .open(session) = phase, applied <= sent else { return [] }
    acknowledge(through: applied)
    limit = max(limit, applied + UInt64(window))
    return flush()
  }

  /// Handles a lost connection: nothing is sent until a receiver welcomes this end again.
  package mutating func disconnected() {
    if case .open = phase { phase = .waiting }
  }

  /// Handles the goodbye of a receiver that stops gracefully; it has applied every event through
  /// `applied`. The connection may have been lost before the goodbye was read.
  package mutating func receiverClosed(session: UInt64, applied: UInt64) {
    guard phase != .closed, lastSession == session, applied <= sent else { return }
    acknowledge(through: applied)
    receiverSaidGoodbye = true
    phase = .waiting
  }

  /// Stops gracefully, with a goodbye. Pending events that are not recorded are lost with this
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
    let acknowledgedBatches = batches.prefix { $0.last <= sequence }
    byteCount -= acknowledgedBatches.reduce(0) { $0 + $1.bytes.count }
    firstUnsent = max(0, firstUnsent - acknowledgedBatches.count)
    batches.removeFirst(acknowledgedBatches.count)
  }

  /// Splits the first unsent batch: a small window must not wait for a large batch.
  private mutating func splitFirstUnsent(after sequence: UInt64) {
    let rest = batches[firstUnsent].split(after: sequence)
    batches.insert(rest, at: firstUnsent + 1)
  }
}
