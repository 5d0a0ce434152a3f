import PipeMachines
import PipeWire

/// A synchronized event that an effect has emitted. The effect's machine accepts the event only
/// together with the other participants.
package struct EmittedEvent {
  /// The number of the effect in its engine.
  let effect: UInt64
  let index: EffectEventKind
  let reply: EffectReply
  let name: EmittedEventNames.Name
  let body: TransactionBody

  package init(
    effect: UInt64, index: EffectEventKind, reply: EffectReply, name: EmittedEventNames.Name,
    body: TransactionBody
  ) {
    self.effect = effect
    self.index = index
    self.reply = reply
    self.name = name
    self.body = body
  }

  /// The message by which the node requests the event from the coordinator. The message is sent
  /// again on each connection until the event is accepted.
  var request: (header: FrameHeader, body: [UInt8]) {
    (header(.await, sequence: name.number), body.bytes)
  }

  /// The message that withdraws the request for the event.
  var withdrawal: (header: FrameHeader, body: [UInt8]) {
    (header(.withdraw, sequence: name.number), [])
  }

  fileprivate var isAnnounced: Bool { if case .announced = index { true } else { false } }

  fileprivate func header(_ flag: SynchronizeFlag, sequence: UInt64) -> FrameHeader {
    FrameHeader(
      .synchronize, flags: flag.rawValue, sequence: sequence, incarnationOrSession: name.scope)
  }
}

/// The synchronized events that effects of a node have emitted and that the node has not applied
/// yet.
package struct EmittedEvents {
  /// The coordinator's answer to the request for an event.
  enum Answer {
    /// The event is committed, and the node has already applied it.
    case applied(EmittedEvent)
    /// The event is committed, but the node has not received the COMMIT yet.
    case committed(EmittedEvent)
    case invalid(EmittedEvent, reason: String)
  }

  package init() {}

  /// The events that are requested from the coordinator, by the numbers of the requests.
  private var requestedEventsByNumber: [UInt64: EmittedEvent] = [:]
  /// The events that are committed but not applied yet, by their transactions.
  private var committedEventsByTransaction: [TransactionID: EmittedEvent] = [:]
  /// The number of events that were applied. They are acknowledged to the coordinator in batches.
  private var appliedCount = 0
  /// The last applied event; `nil` unless an acknowledgement is due.
  private var pendingAcknowledgement: EmittedEvent?

  /// The number of applied events that one message acknowledges.
  private static let acknowledgementBatchSize = 64

  /// The events that are requested from the coordinator, in any order.
  var waiting: some Collection<EmittedEvent> { requestedEventsByNumber.values }

  /// Returns whether a requested event is still wanted. `lowerHalf` contains the lower 32 bits of
  /// the request number.
  func isWaiting(_ lowerHalf: UInt32, _ isWanted: (EmittedEvent) -> Bool) -> Bool {
    requestedEventsByNumber.values.contains {
      UInt32(truncatingIfNeeded: $0.name.number) == lowerHalf && isWanted($0)
    }
  }

  package mutating func add(_ event: EmittedEvent) {
    requestedEventsByNumber[event.name.number] = event
  }

  /// Handles an answer from the coordinator. Returns `nil` if the answer belongs to no event, or if
  /// another answer will follow.
  /// - Parameter applied: The last transaction whose step is applied.
  mutating func answered(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, applied: TransactionID
  ) throws(FrameError) -> Answer? {
    guard let event = requestedEventsByNumber[header.sequence] else { return nil }
    switch RequestReply.Code(rawValue: header.count) {
    case .committed:
      guard body.count == 8 else { throw .body(.reply) }
      let transaction = TransactionID(
        epoch: header.incarnationOrSession,
        sequence: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)))
      requestedEventsByNumber[header.sequence] = nil
      if transaction <= applied { return .applied(event) }
      committedEventsByTransaction[transaction] = event
      return .committed(event)
    case .invalid:
      requestedEventsByNumber[header.sequence] = nil
      let json = (try? JSONValue(parsing: Array(body))) ?? .null
      return .invalid(event, reason: json["error"]?.string ?? "no reason given")
    // The coordinator is stopping. The node will request the event from the coordinator's next
    // process.
    case .synchronized: return nil
    case .accepted, .refused, .busy, .unavailable, .forgotten, .done, .explained, .gated, nil:
      return nil
    }
  }

  /// Notes that an event was applied.
  package mutating func noteTaken(_ event: EmittedEvent) {
    appliedCount += 1
    if appliedCount.isMultiple(of: Self.acknowledgementBatchSize) { pendingAcknowledgement = event }
  }

  /// Removes and returns the message that acknowledges the coordinator's answers; `nil` if no
  /// acknowledgement is due. Answers to effects that have not ended are not acknowledged, because
  /// such an effect may run again and then emits all its events again.
  /// - Parameter oldestEffect: The version of the step that started the oldest running effect;
  ///   `nil` if no effect is running.
  package mutating func takeAcknowledgement(oldestEffect: UInt64?) -> FrameHeader? {
    guard let event = pendingAcknowledgement.take() else { return nil }
    let waiting = requestedEventsByNumber.values.filter { $0.name.scope == event.name.scope }.map(
      \.name.number)
    var oldest = waiting.min() ?? event.name.number
    if let oldestEffect, !event.isAnnounced { oldest = min(oldest, oldestEffect << 24) }
    return event.header(.acknowledge, sequence: oldest)
  }

  /// Removes and returns the event whose transaction the node is about to apply. Returns `nil` if
  /// the transaction's event was not emitted by an effect.
  mutating func take(_ transaction: TransactionID) -> EmittedEvent? {
    committedEventsByTransaction.isEmpty
      ? nil : committedEventsByTransaction.removeValue(forKey: transaction)
  }

  /// Removes and returns the events that effects no longer want. These effects were cancelled, or
  /// have withdrawn the events.
  mutating func takeUnwanted(_ isWanted: (EmittedEvent) -> Bool) -> [EmittedEvent] {
    guard !requestedEventsByNumber.isEmpty else { return [] }
    let unwanted = requestedEventsByNumber.values.filter { !isWanted($0) }
    for event in unwanted { requestedEventsByNumber[event.name.number] = nil }
    return unwanted
  }

  /// Removes and returns all events.
  mutating func takeAll() -> [EmittedEvent] {
    defer { (requestedEventsByNumber, committedEventsByTransaction) = ([:], [:]) }
    return Array(requestedEventsByNumber.values) + committedEventsByTransaction.values
  }
}

/// Assigns names to the requests for events that a node's effects have emitted.
///
/// An effect that runs again emits its events under the same names, so each event is accepted only
/// once. The events that a model announces are never emitted again, so each process uses different
/// names for them.
package struct EmittedEventNames {
  /// The scope of a request, and the number of the request within this scope.
  package struct Name: Hashable {
    package let scope: UInt64
    package let number: UInt64

    package init(scope: UInt64, number: UInt64) {
      self.scope = scope
      self.number = number
    }
  }

  /// The number of events that each effect has emitted, by the effect's number in the engine.
  private var counts: [UInt64: UInt64] = [:]
  private var announcedCount: UInt64 = 0
  private let processScope: UInt64

  /// When this number of effects is stored, the effects that have ended are removed.
  private static let pruneThreshold = 64

  /// - Parameter processScope: A random number that only this process uses.
  package init(processScope: UInt64 = .random(in: 1...UInt64(Int64.max))) {
    self.processScope = processScope
  }

  /// Returns the name of the next event of an effect.
  /// - Parameters:
  ///   - journal: The id of the node's journal.
  ///   - isRunning: Returns whether an effect is still running.
  package mutating func next(
    of effect: UInt64, _ origin: EffectOrigin, _ index: EffectEventKind, journal: UInt64,
    _ isRunning: (UInt64) -> Bool
  ) -> Name {
    if case .announced = index {
      announcedCount += 1
      // The highest bit distinguishes this number from the numbers of effects' requests. An answer
      // contains only the number, not the scope.
      return Name(scope: processScope, number: 1 << 63 | announcedCount)
    }
    if counts.count >= Self.pruneThreshold { counts = counts.filter { isRunning($0.key) } }
    let count = counts[effect, default: 0]
    counts[effect] = count + 1
    return Name(
      scope: Self.scope(journal, block: count >> 16),
      number: origin.version << 24 | UInt64(origin.feedback & 0xFF) << 16 | count & 0xFFFF)
  }

  /// Returns the scope for a block of 65,536 events of an effect. The first block has the id of the
  /// journal as its scope; each later block has another value.
  private static func scope(_ journal: UInt64, block: UInt64) -> UInt64 {
    guard block > 0 else { return journal }
    return max(1, (journal &+ block &* 0x9E37_79B9_7F4A_7C15) >> 1)
  }
}
