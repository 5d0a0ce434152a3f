import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The contents of a journal when its node was started again.
package struct JournalContents {
  /// The last record.
  package struct Record {
    var id: Int64
    package var version: UInt64
    package var time: Int64
    package var cause: String
    /// The state as JSON.
    package var state: [UInt8]
  }

  /// The receiving end of a pipe.
  package struct Consumed {
    /// The stream that `applied` counts in; see ``Journal/stream``.
    package var stream: UInt64
    package var applied: UInt64
    /// Whether the sender had said goodbye.
    package var closed: Bool
    /// The consumed events that are kept until the state changes, in order.
    package var postponed: [(id: Int64, sequence: UInt64, event: [UInt8])] = []
  }

  /// The sending end of a pipe.
  package struct Sent {
    package var queued: UInt64
    package var acknowledged: UInt64
    /// The events after `acknowledged`.
    package var events = RecordedEvents()
  }

  /// The receiver of a pipe.
  package struct Receiver: Hashable {
    /// The name of the node.
    package var name: String
    /// The last event that went to an earlier receiver of the pipe.
    package var redirectedAfter: UInt64

    package init(_ name: String, redirectedAfter: UInt64 = 0) {
      self.name = name
      self.redirectedAfter = redirectedAfter
    }
  }

  /// An effect that had not ended.
  package struct Effect {
    package var origin: EffectOrigin
    /// The state that the effect belongs to, as JSON.
    package var state: [UInt8]
    /// The time since the effect started, or last emitted an event.
    package var elapsed: Duration
  }

  /// A request that was applied.
  package struct Request {
    package var key: RequestKey
    package var version: UInt64
    /// The state as JSON; empty if it was dropped.
    package var state: [UInt8]

    package init(key: RequestKey, version: UInt64, state: [UInt8]) {
      self.key = key
      self.version = version
      self.state = state
    }
  }

  /// The node's part in synchronized events.
  package struct Participant {
    /// The transaction of the last step that was taken together with others.
    package var applied = TransactionID.zero
    /// The step that was last prepared, which may have been taken or aborted since.
    package var prepared: PreparedStep?
    /// The coordinator's journal under which the node was last prepared.
    package var coordinator: RecordedCoordinator?

    /// Adds a step that was prepared without a record of its own.
    /// - Parameter version: The version of the last record.
    mutating func add(_ preparedRecord: PreparedStepRecord.Contents, at version: UInt64) {
      let step = preparedRecord.step
      // If the database has the step as well, the mark shows its outcome.
      guard step.transaction >= prepared?.transaction ?? .zero else { return }
      applied = max(applied, preparedRecord.applied)
      switch preparedRecord.end {
      case .unknown: prepared = step
      case .taken:
        prepared = step
        if version >= step.move.version { applied = max(applied, step.transaction) }
      case .aborted: prepared = nil
      }
    }
  }

  package var record: Record
  package var participant = Participant()
  package var consumed: [String: Consumed] = [:]
  package var sent: [String: Sent] = [:]
  package var effects: [Effect] = []
  /// The most recent dead letters, and the number of all dead letters.
  package var deadLetters: [DeadLetter] = []
  package var deadLetterCount = 0
  /// The approximate size of all dead letters. Unit: bytes.
  package var deadLetterBytes = 0
  /// The number of refused events that were lost, since there were too many dead letters.
  package var lostDeadLetters: UInt64 = 0
  /// The number of the last dead letter so far, which is not reused.
  package var lastDeadLetter: UInt64 = 0
  package var requests: [Request] = []
  /// The highest forgotten number. Up to it, no request of a client that is not in `requests` is
  /// new.
  package var forgottenRequests: UInt64 = 0
}

extension JournalContents {
  private static let deadLetters =
    "SELECT id, pipe, sequence, event, reason, state, version, time FROM dead_letter"
  static let deadLetterQuery = deadLetters + " ORDER BY id"
  /// Returns the query for dead letters with higher numbers than this, oldest first.
  static func deadLetterQuery(after id: UInt64, limit: Int) -> String {
    deadLetters + " WHERE id > \(Int64(clamping: id)) ORDER BY id LIMIT \(limit)"
  }
  static let deadLetterByID = deadLetters + " WHERE id = ?"

  /// The SQL expression of `DeadLetter.byteCount`.
  private static let deadLetterBytesExpression = ["pipe", "event", "reason", "state"].reduce("100")
  {
    "\($0) + length(CAST(\($1) AS BLOB))"
  }

  /// Reads everything that a node needs to continue; `nil` if it has never entered a state.
  static func read(_ database: Database) throws -> JournalContents? {
    let states = RecordedStateReader(database)
    let last = try database.select(
      "SELECT version, time, cause, id, base, state FROM record ORDER BY id DESC LIMIT 1"
    ) { row in
      Record(
        id: row.integer(3), version: row.unsigned(0), time: row.integer(1), cause: row.text(2),
        state: try states.state(of: row, at: 3))
    }.first
    guard let last else { return nil }
    var contents = JournalContents(record: last)
    try contents.readPipes(database)
    contents.effects = try readEffects(database)
    contents.participant = try readParticipant(database)
    contents.lastDeadLetter = UInt64(
      try JournalCheck.number(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'dead_letter'", in: database
      ))
    contents.deadLetterCount = Int(
      try JournalCheck.number("SELECT count(*) FROM dead_letter", in: database))
    contents.deadLetterBytes = Int(
      try JournalCheck.number(
        "SELECT coalesce(sum(\(deadLetterBytesExpression)), 0) FROM dead_letter", in: database))
    contents.lostDeadLetters = try JournalReader.lostDeadLetters(in: database)
    contents.deadLetters = try database.select(
      "\(deadLetterQuery) DESC LIMIT \(DeadLetter.keptInMemory)"
    ) { DeadLetter($0) }.reversed()
    contents.requests = try database.select("SELECT client, id, version, state FROM request") {
      Request(
        key: RequestKey(client: $0.unsigned(0), id: $0.unsigned(1)), version: $0.unsigned(2),
        state: $0.bytes(3))
    }
    try contents.addRecordedStates(database, states)
    contents.forgottenRequests = try JournalCheck.forgottenRequests(in: database)
    return contents
  }

  /// The maximum size of the states that are added to answers. Unit: bytes.
  private static let answerByteLimit = 4 << 20

  /// Adds states to the answers that were recorded without them, from the records of the same
  /// versions.
  private mutating func addRecordedStates(
    _ database: Database, _ states: RecordedStateReader
  ) throws {
    let indices = requests.indices.filter {
      requests[$0].state.isEmpty && requests[$0].version > 0
    }
    // With instances, a version does not identify a record.
    let instanceField = try JournalCheck.meta(JournalSnapshot.instanceFieldKey, in: database)
    guard !indices.isEmpty, instanceField == nil else { return }
    var records: [UInt64: Int64] = [:]
    try database.prepare("SELECT version, id FROM record").rows { row in
      records[row.unsigned(0)] = row.integer(1)
    }
    var byteCount = 0
    for index in indices.sorted(by: { requests[$0].version > requests[$1].version }) {
      guard byteCount < Self.answerByteLimit else { return }
      guard let record = records[requests[index].version] else { continue }
      if requests[index].version == self.record.version {
        requests[index].state = self.record.state
      } else {
        try database.prepare("SELECT id, base, state FROM record WHERE id = ?").rows(
          .integer(record)
        ) { requests[index].state = try states.state(of: $0, at: 0) }
      }
      byteCount += requests[index].state.count
    }
  }

  private mutating func readPipes(_ database: Database) throws {
    try database.prepare("SELECT pipe, stream, applied, closed FROM consumed").rows { row in
      consumed[row.text(0)] = Consumed(
        stream: row.unsigned(1), applied: row.unsigned(2), closed: row.integer(3) != 0)
    }
    try database.prepare("SELECT id, pipe, sequence, event FROM postponed ORDER BY id")
      .rows { row in
        consumed[row.text(1)]?.postponed.append((row.integer(0), row.unsigned(2), row.bytes(3)))
      }
    try database.prepare("SELECT pipe, queued, acknowledged FROM sent").rows { row in
      sent[row.text(0)] = Sent(queued: row.unsigned(1), acknowledged: row.unsigned(2))
    }
    try database.prepare("SELECT pipe, last, count, events FROM outbox ORDER BY pipe, last")
      .rows { row in
        let pipe = row.text(0)
        let (last, count) = (row.unsigned(1), row.unsigned(2))
        guard let acknowledged = sent[pipe]?.acknowledged, count <= last else { return }
        let before = last - count
        let dropped = acknowledged - min(before, acknowledged)
        sent[pipe]?.events.append(
          row.bytes(3), count: Int(count), droppingFirst: Int(clamping: dropped))
      }
  }

  /// Reads only the part in synchronized events, and the version of the last record.
  static func participant(
    of database: Database
  ) throws -> (participant: Participant, version: UInt64)? {
    try database.select("SELECT version FROM record ORDER BY id DESC LIMIT 1") { $0.unsigned(0) }
      .first.map { (try readParticipant(database), $0) }
  }

  private static func readParticipant(_ database: Database) throws -> Participant {
    let applied = try database.select("SELECT epoch, sequence FROM applied") { $0.transaction(0) }
    let prepared = try database.select(
      "SELECT epoch, sequence, version, state, event FROM prepared"
    ) {
      PreparedStep(
        transaction: $0.transaction(0), event: $0.bytes(4),
        move: ParticipantMove(version: $0.unsigned(2), state: $0.bytes(3)))
    }
    return Participant(
      applied: applied.last ?? .zero, prepared: prepared.last,
      coordinator: try JournalCheck.meta(JournalSnapshot.coordinatorKey, in: database)
        .flatMap { RecordedCoordinator(journalValue: $0) })
  }

  private static func readEffects(_ database: Database) throws -> [Effect] {
    let now = BootClock.now
    let boot = BootClock.boot
    return try database.select(
      "SELECT version, feedback, state, time, boot, clock FROM effect ORDER BY version, feedback"
    ) { row in
      let startInstant = BootClock.Instant(time: row.integer(3), clock: row.integer(5))
      return Effect(
        origin: EffectOrigin(version: row.unsigned(0), feedback: Int(row.integer(1))),
        state: row.bytes(2),
        elapsed: now.duration(since: startInstant, isSameBoot: row.text(4) == boot))
    }
  }
}

// The form in the journal: the id, the transaction and the name, separated by spaces.
extension RecordedCoordinator {
  var journalValue: String { "\(journal) \(since.epoch) \(since.sequence) \(name)" }

  init?(journalValue: String) {
    let parts = journalValue.split(separator: " ", maxSplits: 3)
    guard parts.count == 4, let journal = UInt64(parts[0]), let epoch = UInt64(parts[1]),
      let sequence = UInt64(parts[2])
    else { return nil }
    self.init(
      name: String(parts[3]), journal: journal,
      since: TransactionID(epoch: epoch, sequence: sequence))
  }
}

extension DeadLetter {
  /// Reads a dead letter from the columns `id, pipe, sequence, event, reason, state, version,
  /// time`.
  package init(_ row: Row) {
    self.init(
      id: row.unsigned(0), pipe: row.text(1), sequence: row.unsigned(2), event: row.json(3),
      reason: row.text(4), state: row.bytes(5).isEmpty ? nil : row.json(5),
      version: row.unsigned(6),
      time: row.integer(7))
  }
}

/// The unacknowledged events of a pipe, in order, as JSON. Each event is a slice of its row, not a
/// copy.
package struct RecordedEvents: Sequence {
  /// Lines, each with one event.
  private var rows: [ArraySlice<UInt8>] = []
  package private(set) var count = 0

  init() {}

  package var isEmpty: Bool { count == 0 }

  /// Adds the events of a row, without the first `dropped` events.
  mutating func append(_ row: [UInt8], count: Int, droppingFirst dropped: Int) {
    guard dropped < count else { return }
    var lines = row[...]
    for _ in 0..<dropped { lines = Self.split(lines).rest ?? [] }
    rows.append(lines)
    self.count += count - dropped
  }

  /// Drops the first events. There must be at least `count` of them.
  package mutating func removeFirst(_ count: Int) {
    precondition(count <= self.count)
    var iterator = makeIterator()
    for _ in 0..<count { _ = iterator.next() }
    rows = iterator.rest
    self.count -= count
  }

  package func makeIterator() -> Iterator { Iterator(rows) }

  package struct Iterator: IteratorProtocol {
    private let rows: [ArraySlice<UInt8>]
    private var rowIndex = 0
    /// The rest of the current row; `nil` if the row is used up.
    private var row: ArraySlice<UInt8>?

    fileprivate init(_ rows: [ArraySlice<UInt8>]) {
      self.rows = rows
    }

    package mutating func next() -> ArraySlice<UInt8>? {
      if row == nil {
        guard rowIndex < rows.count else { return nil }
        row = rows[rowIndex]
        rowIndex += 1
      }
      guard let lines = row else { return nil }
      let (event, rest) = RecordedEvents.split(lines)
      row = rest
      return event
    }

    fileprivate var rest: [ArraySlice<UInt8>] { (row.map { [$0] } ?? []) + rows[rowIndex...] }
  }

  /// Returns the first line, and the lines after it; `nil` if there are none.
  private static func split(
    _ lines: ArraySlice<UInt8>
  ) -> (event: ArraySlice<UInt8>, rest: ArraySlice<UInt8>?) {
    let count = lines.withUnsafeBytes { bytes -> Int? in
      guard let start = bytes.baseAddress, let found = memchr(start, 0x0A, bytes.count) else {
        return nil
      }
      return UnsafeRawPointer(found) - start
    }
    guard let count else { return (lines, nil) }
    let end = lines.startIndex + count
    return (lines[..<end], lines[(end + 1)...])
  }
}
