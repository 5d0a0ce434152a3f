import PipeWire

/// The sending end of a pipe, as a pure value. It knows which events are queued, recorded, sent and
/// acknowledged, and how many events the receiver allows.
///
/// This end sends nothing until the receiver has welcomed it. It sends only events that are
/// recorded and that the receiver's credit allows. Each event stays in the queue until the receiver
/// has acknowledged the event.
package struct OutPipeStateMachine: Sendable {
  /// An action that the owner, an ``OutPipe``, must perform. Actions must be performed in order.
  package enum Action: Hashable, Sendable {
    /// Send this frame without a body. The receiver identifies the pipe by the socket's routing id.
    case send(FrameHeader)
    /// Announce the stream, and the event number with which this end continues.
    case open(FrameHeader, stream: UInt64)
    /// Send the events of the batch.
    case sendBatch(EventBatch, session: UInt64)
    /// Report that events up to number `through` are lost: a former receiver may not have applied
    /// them.
    case report(lost: UInt64, through: UInt64)
    /// Report that this node's journal is an old copy: the receiver has events of this stream that
    /// the journal lacks.
    case reportStaleJournal(received: UInt64)
  }

  /// The phase of the conversation with the receiver.
  package enum Phase: Hashable, Sendable {
    /// No receiver has welcomed this end, or the connection to the receiver is lost.
    case waiting
    /// The receiver has welcomed this end. `session` is the receiver's incarnation.
    case open(session: UInt64)
    /// This end has said goodbye.
    case closed
  }

  /// The maximum number of events that are queued or in flight. Unit: events.
  package let capacity: UInt64
  /// The id of the numbering of events. If a sender begins to number its events again from 1, it
  /// begins a new stream.
  package let stream: UInt64
  /// Whether an event must be recorded before it is sent.
  package let isDurable: Bool
  package private(set) var phase: Phase = .waiting
  /// The number of the last queued event.
  package private(set) var lastQueued: UInt64 = 0
  /// The number of the last event that may be sent. Later events must be recorded first.
  package private(set) var lastRecorded: UInt64 = 0
  /// The number of the last event sent in this session.
  package private(set) var lastSent: UInt64 = 0
  /// The number of the last event that the receiver has acknowledged.
  package private(set) var lastAcknowledged: UInt64 = 0
  /// The highest event number that the receiver's credit allows.
  package private(set) var sendLimit: UInt64 = 0
  /// The part of the capacity that the receiver's postponed events do not use. Unit: events.
  private var window: UInt64
  private var batches: [EventBatch] = []
  private var firstUnsent = 0
  private var byteCount = 0
  private var lastSession: UInt64?
  private var receiverSaidGoodbye = false
  /// The number of the last event that went to an earlier receiver of the pipe.
  private var redirectedAfter: UInt64 = 0

  /// The total size of queued events at which the pipe counts as full, regardless of its capacity
  /// in events. Unit: bytes.
  package static let byteLimit = 32 << 20
  private static let batchByteLimit = 60_000

  package init(capacity: Int, stream: UInt64, isDurable: Bool = false) {
    self.capacity = UInt64(capacity)
    window = self.capacity
    self.stream = stream
    self.isDurable = isDurable
  }

  /// Resumes a pipe from an earlier process's records.
  /// - Parameters:
  ///   - lastAcknowledged: The number of the last acknowledged event.
  ///   - redirectedAfter: The number of the last event that went to an earlier receiver of the
  ///     pipe.
  ///   - events: The recorded events after `lastAcknowledged`.
  package init(
    capacity: Int, stream: UInt64, lastAcknowledged: UInt64, redirectedAfter: UInt64 = 0,
    events: some Sequence<some Collection<UInt8>>
  ) {
    self.init(capacity: capacity, stream: stream, isDurable: true)
    self.redirectedAfter = redirectedAfter
    lastQueued = lastAcknowledged
    self.lastAcknowledged = lastAcknowledged
    lastSent = lastAcknowledged
    sendLimit = lastAcknowledged
    lastRecorded = lastAcknowledged
    for event in events { restore(event, schema: 1) }
  }

  /// Queues an event that an earlier process has recorded.
  /// - Parameter schema: The schema version of the receiver for which the event is encoded.
  package mutating func restore(_ event: some Collection<UInt8>, schema: Int) {
    enqueue(schema: schema) { $0 += event }
    lastRecorded = lastQueued
  }

  /// Whether the pipe is full. The node must then accept no further input until the receiver has
  /// acknowledged events, or applied postponed events.
  package var isFull: Bool {
    lastQueued - lastAcknowledged >= window || byteCount >= Self.byteLimit
  }

  /// The number of events that are queued or in flight. Unit: events.
  package var pendingCount: UInt64 { lastQueued - lastAcknowledged }

  /// Whether a receiver has ever welcomed this end.
  package var hasBeenWelcomed: Bool { lastSession != nil }

  /// Queues an event. `write` must append the event's JSON to its argument.
  /// - Parameter schema: The schema version of the receiver for which the event is encoded.
  package mutating func enqueue(
    schema: Int = 1, _ write: (inout [UInt8]) throws -> Void
  ) rethrows {
    let batchCapacity = max(1, min(256, capacity / 2))
    if firstUnsent == batches.count || batches[batches.count - 1].count >= batchCapacity
      || batches[batches.count - 1].bytes.count >= Self.batchByteLimit
      || batches[batches.count - 1].schemaVersion != schema
    {
      batches.append(EventBatch(first: lastQueued + 1, schemaVersion: schema))
    }
    let last = batches.count - 1
    let previousByteCount = batches[last].bytes.count
    do { try batches[last].append(write) } catch {
      if batches[last].count == 0 { batches.removeLast() }
      throw error
    }
    byteCount += batches[last].bytes.count - previousByteCount
    lastQueued += 1
  }

  /// The events that the receiver has not acknowledged, each with its number.
  package var pendingEvents: [(number: UInt64, event: [UInt8])] {
    batches.flatMap { $0.events }.filter { $0.number > lastAcknowledged }
  }

  /// Notes that all queued events are recorded, or that the pipe is not durable.
  package mutating func record() { lastRecorded = lastQueued }

  /// Returns the batches that can be sent: the recorded events that the credit allows. Called once
  /// per turn, so that the events of a turn share a message.
  package mutating func flush() -> [Action] {
    guard case .open(let session) = phase else { return [] }
    let end = min(sendLimit, lastRecorded)
    var actions: [Action] = []
    while firstUnsent < batches.count, batches[firstUnsent].firstSequence <= end {
      if batches[firstUnsent].lastSequence > end { splitFirstUnsent(after: end) }
      actions.append(.sendBatch(batches[firstUnsent], session: session))
      lastSent = batches[firstUnsent].lastSequence
      firstUnsent += 1
    }
    return actions
  }

  /// Handles a `welcome` frame. The receiver already has the events of `stream` up to number
  /// `received`.
  /// - Parameters:
  ///   - window: The number of events that the receiver allows beyond the acknowledged events.
  ///   - isDurable: Whether the receiver records the events that it applies.
  package mutating func welcomed(
    session: UInt64, stream: UInt64, received: UInt64, window: UInt32, isDurable: Bool
  ) -> [Action] {
    guard phase != .closed else { return [] }
    guard stream != self.stream || received <= lastQueued else {
      return [.reportStaleJournal(received: received)]
    }
    var actions: [Action] = []
    var lost: UInt64 = 0
    var wasRedirected = false
    if stream == self.stream, received < lastAcknowledged {
      lost = lastAcknowledged - received
      wasRedirected = lastAcknowledged <= redirectedAfter
      // Unless the pipe was redirected, the receiver continues with an older journal, which lacks
      // acknowledged events. This end has already deleted these events, so they are lost.
      if !wasRedirected {
        actions.append(
          .report(
            lost: lastAcknowledged - max(received, redirectedAfter), through: lastAcknowledged))
      }
    }
    var lastHeld = lastAcknowledged
    if stream == self.stream || isDurable || receiverSaidGoodbye || lastSession == session
      || lastSession == nil
    {
      // Sends, or repeats, the events that this receiver lacks.
      if stream == self.stream { lastHeld = max(received, lastHeld) }
      firstUnsent = batches.firstIndex { $0.lastSequence > lastHeld } ?? batches.count
    } else {
      lost = lastSent - lastAcknowledged
      if lost > 0 { actions.append(.report(lost: lost, through: lastSent)) }
      acknowledge(through: lastSent)
      lastHeld = lastAcknowledged
      firstUnsent = 0
    }
    receiverSaidGoodbye = false
    lastSession = session
    phase = .open(session: session)
    self.window = UInt64(window)
    sendLimit = lastAcknowledged + UInt64(window)
    // If the receiver already has a part of the first batch, the receiver skips the events before
    // `first`.
    let first = lastHeld + 1
    lastSent = lastHeld
    actions.append(
      .open(
        FrameHeader(
          .open, flags: wasRedirected ? InPipeStateMachine.redirectedFlag : 0,
          count: UInt32(clamping: lost), sequence: first, incarnationOrSession: session),
        stream: self.stream))
    return actions + flush()
  }

  /// Handles a `credit` frame. The receiver has applied the events up to number `applied`, and
  /// allows `window` events after `applied`.
  package mutating func credited(
    session: UInt64, applied: UInt64, window: UInt32
  ) -> [Action] {
    guard case .open(session) = phase, applied <= lastSent else { return [] }
    acknowledge(through: applied)
    self.window = UInt64(window)
    sendLimit = max(sendLimit, applied + UInt64(window))
    return flush()
  }

  /// Handles a lost connection. Nothing is sent until a receiver welcomes this end again.
  package mutating func disconnected() {
    if case .open = phase { phase = .waiting }
  }

  /// Handles the goodbye of a receiver that stops gracefully and has applied the events up to
  /// number `applied`. When this end reads the goodbye, the connection may already be lost.
  package mutating func receiverClosed(session: UInt64, applied: UInt64) {
    guard phase != .closed, lastSession == session, applied <= lastSent else { return }
    acknowledge(through: applied)
    receiverSaidGoodbye = true
    phase = .waiting
  }

  /// Stops gracefully and says goodbye. Pending events that are not recorded are lost when this
  /// process ends.
  package mutating func close() -> [Action] {
    guard case .open(let session) = phase else {
      phase = .closed
      return []
    }
    phase = .closed
    return [.send(FrameHeader(.close, sequence: lastSent, incarnationOrSession: session))]
  }

  private mutating func acknowledge(through sequence: UInt64) {
    guard sequence > lastAcknowledged else { return }
    lastAcknowledged = sequence
    let acknowledgedBatches = batches.prefix { $0.lastSequence <= sequence }
    byteCount -= acknowledgedBatches.reduce(0) { $0 + $1.bytes.count }
    firstUnsent = max(0, firstUnsent - acknowledgedBatches.count)
    batches.removeFirst(acknowledgedBatches.count)
  }

  /// Splits the first unsent batch after event `sequence`, because only this part of the batch may
  /// be sent.
  private mutating func splitFirstUnsent(after sequence: UInt64) {
    let rest = batches[firstUnsent].split(after: sequence)
    batches.insert(rest, at: firstUnsent + 1)
  }
}
