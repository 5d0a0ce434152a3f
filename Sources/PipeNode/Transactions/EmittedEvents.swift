import PipeMachines
import PipeWire

/// An event that an effect has given, and that its machine takes only together with others.
package struct EmittedEvent {
  /// The effect's number in its engine.
  let effect: UInt64
  let place: EffectEventPlace
  let reply: EffectReply
  let name: EmittedNumbers.Name
  let body: TransactionBody

  package init(
    effect: UInt64, place: EffectEventPlace, reply: EffectReply, name: EmittedNumbers.Name,
    body: TransactionBody
  ) {
    self.effect = effect
    self.place = place
    self.reply = reply
    self.name = name
    self.body = body
  }

  /// What asks the coordinator for it, until it is taken.
  var request: (header: FrameHeader, body: [UInt8]) {
    (header(.await, sequence: name.number), body.bytes)
  }

  /// What tells the coordinator that it is not waited for any more.
  var withdrawal: (header: FrameHeader, body: [UInt8]) {
    (header(.withdraw, sequence: name.number), [])
  }

  fileprivate var isAnnounced: Bool { if case .announced = place { true } else { false } }

  fileprivate func header(_ flag: SynchronizeFlag, sequence: UInt64) -> FrameHeader {
    FrameHeader(.synchronize, flags: flag.rawValue, sequence: sequence, number: name.scope)
  }
}

/// The events that effects of a node have given, and that are not taken yet.
package struct EmittedEvents {
  /// What the coordinator has answered.
  enum Answer {
    /// The event was taken, in a step that is applied.
    case applied(EmittedEvent)
    /// It is taken, by a commit that is still to come.
    case committed(EmittedEvent)
    case invalid(EmittedEvent, reason: String)
  }

  package init() {}

  /// Those that were asked for, by the numbers of the requests.
  private var asked: [UInt64: EmittedEvent] = [:]
  /// What the transactions that are not applied yet are for.
  private var committed: [TransactionID: EmittedEvent] = [:]
  /// How many were taken since the coordinator was told which ones still wait.
  private var takenCount = 0
  /// The last event that was taken, where the coordinator is to be told.
  private var acknowledged: EmittedEvent?

  /// Events that are taken before the coordinator is told so.
  private static let acknowledgedTogether = 64

  /// Those that the coordinator is asked for.
  var waiting: some Collection<EmittedEvent> { asked.values }

  /// Whether an event was asked for by a number of this lower half, and is still to be taken.
  func isWaiting(_ half: UInt32, _ isWanted: (EmittedEvent) -> Bool) -> Bool {
    asked.values.contains {
      UInt32(truncatingIfNeeded: $0.name.number) == half && isWanted($0)
    }
  }

  package mutating func add(_ event: EmittedEvent) { asked[event.name.number] = event }

  /// Reads an answer; `nil` where it is to no event, or another one comes.
  /// - Parameter applied: The last transaction whose step is applied.
  mutating func answered(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, applied: TransactionID
  ) throws(FrameError) -> Answer? {
    guard let event = asked[header.sequence] else { return nil }
    switch RequestReply.Code(rawValue: header.count) {
    case .committed:
      guard body.count == 8 else { throw .body(.reply) }
      let transaction = TransactionID(
        epoch: header.number,
        sequence: UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)))
      asked[header.sequence] = nil
      if transaction <= applied { return .applied(event) }
      committed[transaction] = event
      return .committed(event)
    case .invalid:
      asked[header.sequence] = nil
      let json = (try? JSONValue(parsing: Array(body))) ?? .null
      return .invalid(event, reason: json["error"]?.string ?? "no reason given")
    // The coordinator ends, and the next one is asked again.
    case .synchronized: return nil
    case .moved, .refused, .busy, .unavailable, .forgotten, .done, .explained, nil: return nil
    }
  }

  /// An event was taken.
  package mutating func noteTaken(_ event: EmittedEvent) {
    takenCount += 1
    if takenCount.isMultiple(of: Self.acknowledgedTogether) { acknowledged = event }
  }

  /// Now and then, what tells the coordinator which answers are not waited for any more. An effect that has not ended
  /// may be run again, and then gives all its events again.
  /// - Parameter oldestEffect: The version of the step that started the oldest effect which has not ended.
  package mutating func takeAcknowledgement(oldestEffect: UInt64?) -> FrameHeader? {
    guard let event = acknowledged.take() else { return nil }
    let waiting = asked.values.filter { $0.name.scope == event.name.scope }.map(\.name.number)
    var oldest = waiting.min() ?? event.name.number
    if let oldestEffect, !event.isAnnounced { oldest = min(oldest, oldestEffect << 24) }
    return event.header(.acknowledge, sequence: oldest)
  }

  /// Takes out what a transaction is for, whose step is taken now.
  mutating func take(_ transaction: TransactionID) -> EmittedEvent? {
    committed.isEmpty ? nil : committed.removeValue(forKey: transaction)
  }

  /// Takes out what is not to be taken any more: its effect was cancelled, or has withdrawn it.
  mutating func takeUnwanted(_ isWanted: (EmittedEvent) -> Bool) -> [EmittedEvent] {
    guard !asked.isEmpty else { return [] }
    let unwanted = asked.values.filter { !isWanted($0) }
    for event in unwanted { asked[event.name.number] = nil }
    return unwanted
  }

  /// Takes out all.
  mutating func takeAll() -> [EmittedEvent] {
    defer { (asked, committed) = ([:], [:]) }
    return Array(asked.values) + committed.values
  }
}

/// The names of requests for events that the effects of a node have given.
///
/// An effect that is run again gives its events under the same names, and each of them is taken once. What a
/// model announces is never given again, so that another process has other names for it.
package struct EmittedNumbers {
  /// Whose request it is, and its number among those.
  package struct Name: Hashable {
    package let scope: UInt64
    package let number: UInt64

    package init(scope: UInt64, number: UInt64) {
      self.scope = scope
      self.number = number
    }
  }

  /// How many events each effect has given, by its number in the engine.
  private var counts: [UInt64: UInt64] = [:]
  private var announced: UInt64 = 0
  private let process: UInt64

  /// Effects that are remembered before those that have ended are looked for.
  private static let kept = 64

  /// - Parameter process: A random number, of this process alone.
  package init(process: UInt64 = .random(in: 1...UInt64(Int64.max))) { self.process = process }

  /// The name of the next event of an effect.
  /// - Parameters:
  ///   - journal: The id of the node's journal.
  ///   - isRunning: Whether an effect has not ended.
  package mutating func next(
    of effect: UInt64, _ origin: EffectOrigin, _ place: EffectEventPlace, journal: UInt64,
    _ isRunning: (UInt64) -> Bool
  ) -> Name {
    if case .announced = place {
      announced += 1
      // Apart from those of effects: an answer has the number alone.
      return Name(scope: process, number: 1 << 63 | announced)
    }
    if counts.count >= Self.kept { counts = counts.filter { isRunning($0.key) } }
    let count = counts[effect, default: 0]
    counts[effect] = count + 1
    return Name(
      scope: Self.scope(journal, block: count >> 16),
      number: origin.version << 24 | UInt64(origin.feedback & 0xFF) << 16 | count & 0xFFFF)
  }

  /// The name of a journal, for the first 65,536 events of an effect; each block of as many after that has another.
  private static func scope(_ journal: UInt64, block: UInt64) -> UInt64 {
    guard block > 0 else { return journal }
    return max(1, (journal &+ block &* 0x9E37_79B9_7F4A_7C15) >> 1)
  }
}
