import PipeMachines
import PipeWire

/// An event that an effect has emitted, and that its machine takes only together with others.
package struct EmittedEvent {
  /// The effect's number in its engine.
  let effect: UInt64
  let index: EffectEventIndex
  let reply: EffectReply
  let name: EmittedEventNames.Name
  let body: TransactionBody

  package init(
    effect: UInt64, index: EffectEventIndex, reply: EffectReply, name: EmittedEventNames.Name,
    body: TransactionBody
  ) {
    self.effect = effect
    self.index = index
    self.reply = reply
    self.name = name
    self.body = body
  }

  /// The message that requests the event from the coordinator, until the event is taken.
  var request: (header: FrameHeader, body: [UInt8]) {
    (header(.await, sequence: name.number), body.bytes)
  }

  /// The message that withdraws the request for the event.
  var withdrawal: (header: FrameHeader, body: [UInt8]) {
    (header(.withdraw, sequence: name.number), [])
  }

  fileprivate var isAnnounced: Bool { if case .announced = index { true } else { false } }

  fileprivate func header(_ flag: SynchronizeFlag, sequence: UInt64) -> FrameHeader {
    FrameHeader(.synchronize, flags: flag.rawValue, sequence: sequence, number: name.scope)
  }
}

/// The events that effects of a node have emitted, and that are not taken yet.
package struct EmittedEvents {
  /// An answer of the coordinator.
  enum Answer {
    /// The event was taken, in a step that is applied.
    case applied(EmittedEvent)
    /// The event is taken by a commit that has not arrived yet.
    case committed(EmittedEvent)
    case invalid(EmittedEvent, reason: String)
  }

  package init() {}

  /// The requested events, by the numbers of the requests.
  private var requested: [UInt64: EmittedEvent] = [:]
  /// The events of the transactions that are not applied yet.
  private var committed: [TransactionID: EmittedEvent] = [:]
  /// The number of taken events. They are acknowledged to the coordinator in groups.
  private var takenCount = 0
  /// The last taken event, while its acknowledgement to the coordinator is due.
  private var pendingAcknowledgement: EmittedEvent?

  /// The number of events that are acknowledged to the coordinator together.
  private static let acknowledgementBatchSize = 64

  /// The events that are requested from the coordinator.
  var waiting: some Collection<EmittedEvent> { requested.values }

  /// Whether an event with this lower half of its number was requested, and is still wanted.
  func isWaiting(_ lowerHalf: UInt32, _ isWanted: (EmittedEvent) -> Bool) -> Bool {
    requested.values.contains {
      UInt32(truncatingIfNeeded: $0.name.number) == lowerHalf && isWanted($0)
    }
  }

  package mutating func add(_ event: EmittedEvent) { requested[event.name.number] = event }

  /// Reads an answer; `nil` if it belongs to no event, or if another answer will follow.
  /// - Parameter applied: The last transaction whose step is applied.
  mutating func answered(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, applied: TransactionID
  ) throws(FrameError) -> Answer? {
    guard let event = requested[header.sequence] else { return nil }
    switch RequestReply.Code(rawValue: header.count) {
    case .committed:
      guard body.count == 8 else { throw .body(.reply) }
      let transaction = TransactionID(
        epoch: header.number,
        sequence: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)))
      requested[header.sequence] = nil
      if transaction <= applied { return .applied(event) }
      committed[transaction] = event
      return .committed(event)
    case .invalid:
      requested[header.sequence] = nil
      let json = (try? JSONValue(parsing: Array(body))) ?? .null
      return .invalid(event, reason: json["error"]?.string ?? "no reason given")
    // The coordinator ends, and the next one gets the request again.
    case .synchronized: return nil
    case .accepted, .refused, .busy, .unavailable, .forgotten, .done, .explained, nil: return nil
    }
  }

  /// Notes that an event was taken.
  package mutating func noteTaken(_ event: EmittedEvent) {
    takenCount += 1
    if takenCount.isMultiple(of: Self.acknowledgementBatchSize) { pendingAcknowledgement = event }
  }

  /// Returns, from time to time, the message that acknowledges answers to the coordinator. An
  /// effect that has not ended may be run again, and then emits all its events again.
  /// - Parameter oldestEffect: The version of the step that started the oldest effect which has not ended.
  package mutating func takeAcknowledgement(oldestEffect: UInt64?) -> FrameHeader? {
    guard let event = pendingAcknowledgement.take() else { return nil }
    let waiting = requested.values.filter { $0.name.scope == event.name.scope }.map(\.name.number)
    var oldest = waiting.min() ?? event.name.number
    if let oldestEffect, !event.isAnnounced { oldest = min(oldest, oldestEffect << 24) }
    return event.header(.acknowledge, sequence: oldest)
  }

  /// Removes and returns the event of a transaction whose step is taken now.
  mutating func take(_ transaction: TransactionID) -> EmittedEvent? {
    committed.isEmpty ? nil : committed.removeValue(forKey: transaction)
  }

  /// Removes and returns the events that must not be taken any more: their effect was cancelled, or
  /// has withdrawn them.
  mutating func takeUnwanted(_ isWanted: (EmittedEvent) -> Bool) -> [EmittedEvent] {
    guard !requested.isEmpty else { return [] }
    let unwanted = requested.values.filter { !isWanted($0) }
    for event in unwanted { requested[event.name.number] = nil }
    return unwanted
  }

  /// Removes and returns all events.
  mutating func takeAll() -> [EmittedEvent] {
    defer { (requested, committed) = ([:], [:]) }
    return Array(requested.values) + committed.values
  }
}

/// The names of requests for events that the effects of a node have emitted.
///
/// An effect that is run again emits its events under the same names, and each of them is taken
/// once. The events that a model announces are never emitted again, so another process has other
/// names for them.
package struct EmittedEventNames {
  /// The scope of a request, and its number within the scope.
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
  private var announced: UInt64 = 0
  private let process: UInt64

  /// The number of remembered effects at which ended effects are removed.
  private static let pruneThreshold = 64

  /// - Parameter process: A random number that only this process uses.
  package init(process: UInt64 = .random(in: 1...UInt64(Int64.max))) { self.process = process }

  /// Returns the name of the next event of an effect.
  /// - Parameters:
  ///   - journal: The id of the node's journal.
  ///   - isRunning: Whether an effect has not ended.
  package mutating func next(
    of effect: UInt64, _ origin: EffectOrigin, _ index: EffectEventIndex, journal: UInt64,
    _ isRunning: (UInt64) -> Bool
  ) -> Name {
    if case .announced = index {
      announced += 1
      // Distinct from the numbers of effects: an answer carries only the number.
      return Name(scope: process, number: 1 << 63 | announced)
    }
    if counts.count >= Self.pruneThreshold { counts = counts.filter { isRunning($0.key) } }
    let count = counts[effect, default: 0]
    counts[effect] = count + 1
    return Name(
      scope: Self.scope(journal, block: count >> 16),
      number: origin.version << 24 | UInt64(origin.feedback & 0xFF) << 16 | count & 0xFFFF)
  }

  /// Returns the scope for a block of 65,536 events of an effect: the journal's id for the first
  /// block, another value for each later block.
  private static func scope(_ journal: UInt64, block: UInt64) -> UInt64 {
    guard block > 0 else { return journal }
    return max(1, (journal &+ block &* 0x9E37_79B9_7F4A_7C15) >> 1)
  }
}
