import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The contents of a journal that a node needs when it starts again.
package struct JournalContents {
  /// The last record of the journal.
  package struct Record {
    var id: Int64
    package var version: UInt64
    package var time: Int64
    package var cause: String
    /// The state as JSON.
    package var state: [UInt8]
    /// The schema version of the machine that has written the state.
    package var schema: Int
  }

  /// The progress of an inbound pipe.
  package struct InPipeProgress {
    /// The id of the sender's journal, which identifies the numbering of the sender's events. See
    /// ``Journal/stream``.
    package var stream: UInt64
    package var lastApplied: UInt64
    /// Whether the sender has sent `goodbye`.
    package var isClosed: Bool
    /// The postponed events, in order.
    package var postponedEvents: [(id: Int64, sequence: UInt64, event: [UInt8], schema: Int)] = []
  }

  /// The progress of an outbound pipe.
  package struct OutPipeProgress {
    package var lastQueuedNumber: UInt64
    package var lastAcknowledged: UInt64
    /// The events after `lastAcknowledged`.
    package var events = RecordedEvents()
  }

  /// The node that receives the events of a pipe.
  package struct Receiver: Hashable {
    /// The name of the node.
    package var name: String
    /// The number of the last event that the pipe delivered to an earlier receiver; 0 if the pipe
    /// had no earlier receiver.
    package var lastNumberBeforeRedirection: UInt64

    package init(_ name: String, lastNumberBeforeRedirection: UInt64 = 0) {
      self.name = name
      self.lastNumberBeforeRedirection = lastNumberBeforeRedirection
    }
  }

  /// An unfinished effect, or the timers of a state.
  package struct Effect {
    package var origin: EffectOrigin
    /// For an effect, the state that started it, as JSON. For timers, the time from the entry into
    /// the state to the expiry of the next timer, in nanoseconds.
    package var state: [UInt8]
    /// The time from the start or the last event of the effect until the journal was read.
    package var elapsedTime: Duration
    /// The instant when the journal was read.
    var readInstant: BootClock.Instant
    /// The schema version of the machine that has written the state.
    package var schema = 1

    /// The instant of the effect's start or last event, converted to the clocks of this process.
    package var startInstant: BootClock.Instant {
      let elapsed = elapsedTime.clampedNanoseconds
      return BootClock.Instant(
        timeOfDay: readInstant.timeOfDay &- elapsed,
        timeSinceBoot: readInstant.timeSinceBoot &- elapsed)
    }

    /// For timers, the time from the entry into the state to the expiry of the next timer.
    package var delay: Duration {
      .nanoseconds(Int64(String(decoding: state, as: UTF8.self)) ?? 0)
    }
  }

  /// A request whose event the node has applied, with the node's answer.
  package struct Request {
    package var key: RequestKey
    package var version: UInt64
    /// The state in the answer, as JSON; empty if the journal has omitted the state.
    package var state: [UInt8]

    package init(key: RequestKey, version: UInt64, state: [UInt8]) {
      self.key = key
      self.version = version
      self.state = state
    }
  }

  /// The progress of the node as a participant in synchronized events.
  package struct Participant {
    /// The last transaction whose step the node has taken.
    package var lastApplied = TransactionID.zero
    /// The step that the node was last prepared for. The node may already have taken or aborted
    /// this step.
    package var preparedStep: PreparedStep?
    /// The coordinator that last prepared the node for a step.
    package var coordinator: RecordedCoordinator?

    /// Adds the prepared step that the step marker file contains.
    /// - Parameter version: The version of the last record in the database.
    mutating func add(_ preparedRecord: PreparedStepRecord.Contents, at version: UInt64) {
      let step = preparedRecord.step
      // The database may contain the same step, but only the step marker file contains the outcome.
      guard step.transaction >= preparedStep?.transaction ?? .zero else { return }
      lastApplied = max(lastApplied, preparedRecord.lastApplied)
      switch preparedRecord.outcome {
      case .unknown: preparedStep = step
      case .taken:
        preparedStep = step
        if version >= step.move.version { lastApplied = max(lastApplied, step.transaction) }
      case .aborted: preparedStep = nil
      }
    }
  }

  package var record: Record
  package var participant = Participant()
  package var inPipeProgressByPipe: [String: InPipeProgress] = [:]
  package var outPipeProgressByPipe: [String: OutPipeProgress] = [:]
  package var effects: [Effect] = []
  /// The most recent dead letters.
  package var deadLetters: [DeadLetter] = []
  package var deadLetterCount = 0
  /// The approximate size of all dead letters. Unit: bytes.
  package var deadLetterByteCount = 0
  /// The number of refused events that were discarded because the journal had the maximum number of
  /// dead letters.
  package var lostDeadLetterCount: UInt64 = 0
  /// The highest id that a dead letter has ever had. Ids are never reused.
  package var lastDeadLetterID: UInt64 = 0
  package var requests: [Request] = []
  /// The highest request number of any forgotten client. If a client is not in `requests`, its
  /// request is new only if the request's number is higher.
  package var highestForgottenRequestNumber: UInt64 = 0
}

extension JournalContents {
  private static let deadLetterSelection =
    "SELECT id, pipe, sequence, event, reason, state, version, time, schema FROM dead_letter"
  static let deadLetterQuery = deadLetterSelection + " ORDER BY id"
  /// Returns the query for the dead letters with ids above `id`, oldest first.
  static func deadLetterQuery(after id: UInt64, limit: Int) -> String {
    deadLetterSelection + " WHERE id > \(Int64(clamping: id)) ORDER BY id LIMIT \(limit)"
  }
  static let deadLetterByIDQuery = deadLetterSelection + " WHERE id = ?"

  /// The SQL expression that computes `DeadLetter.byteCount`.
  private static let deadLetterBytesExpression = ["pipe", "event", "reason", "state"].reduce("100")
  {
    "\($0) + length(CAST(\($1) AS BLOB))"
  }

  /// Reads the contents that a restarted node needs. Returns `nil` if the node has never entered a
  /// state.
  static func read(_ database: Database) throws -> JournalContents? {
    let states = RecordedStateReader(database)
    let last = try database.select(
      "SELECT version, time, cause, id, base, state, schema FROM record ORDER BY id DESC LIMIT 1"
    ) { row in
      Record(
        id: row.integer(3), version: row.unsigned(0), time: row.integer(1), cause: row.text(2),
        state: try states.state(of: row, at: 3), schema: row.schema(6))
    }.first
    guard let last else { return nil }
    var contents = JournalContents(record: last)
    try contents.readPipes(database)
    contents.effects = try readEffects(database)
    contents.participant = try readParticipant(database)
    contents.lastDeadLetterID = UInt64(
      try JournalCheck.selectNumber(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'dead_letter'", in: database
      ))
    contents.deadLetterCount = Int(
      try JournalCheck.selectNumber("SELECT count(*) FROM dead_letter", in: database))
    contents.deadLetterByteCount = Int(
      try JournalCheck.selectNumber(
        "SELECT coalesce(sum(\(deadLetterBytesExpression)), 0) FROM dead_letter", in: database))
    contents.lostDeadLetterCount = try JournalReader.lostDeadLetterCount(in: database)
    contents.deadLetters = try database.select(
      "\(deadLetterQuery) DESC LIMIT \(DeadLetter.maximumInMemoryCount)"
    ) { DeadLetter($0) }.reversed()
    contents.requests = try database.select("SELECT client, id, version, state FROM request") {
      Request(
        key: RequestKey(client: $0.unsigned(0), id: $0.unsigned(1)), version: $0.unsigned(2),
        state: $0.bytes(3))
    }
    try contents.addRecordedStates(database, states)
    contents.highestForgottenRequestNumber = try JournalCheck.highestForgottenRequestNumber(
      in: database)
    return contents
  }

  /// The maximum total size of the states that are added to answers. Unit: bytes.
  private static let answerByteLimit = 4 << 20

  /// Adds states to the answers that were recorded without a state. The record with the same
  /// version as the answer contains the state.
  private mutating func addRecordedStates(
    _ database: Database, _ states: RecordedStateReader
  ) throws {
    let indices = requests.indices.filter {
      requests[$0].state.isEmpty && requests[$0].version > 0
    }
    // In a node with instances, a version does not identify a record.
    let instanceField = try JournalCheck.metaValue(JournalSnapshot.instanceFieldKey, in: database)
    guard !indices.isEmpty, instanceField == nil else { return }
    var records: [UInt64: Int64] = [:]
    try database.prepare("SELECT version, id FROM record").forEachRow { row in
      records[row.unsigned(0)] = row.integer(1)
    }
    var byteCount = 0
    for index in indices.sorted(by: { requests[$0].version > requests[$1].version }) {
      guard byteCount < Self.answerByteLimit else { return }
      guard let record = records[requests[index].version] else { continue }
      if requests[index].version == self.record.version {
        requests[index].state = self.record.state
      } else {
        try database.prepare("SELECT id, base, state FROM record WHERE id = ?").forEachRow(
          .integer(record)
        ) { requests[index].state = try states.state(of: $0, at: 0) }
      }
      byteCount += requests[index].state.count
    }
  }

  private mutating func readPipes(_ database: Database) throws {
    try database.prepare("SELECT pipe, stream, applied, closed FROM consumed").forEachRow { row in
      inPipeProgressByPipe[row.text(0)] = InPipeProgress(
        stream: row.unsigned(1), lastApplied: row.unsigned(2), isClosed: row.integer(3) != 0)
    }
    try database.prepare("SELECT id, pipe, sequence, event, schema FROM postponed ORDER BY id")
      .forEachRow { row in
        inPipeProgressByPipe[row.text(1)]?.postponedEvents.append(
          (row.integer(0), row.unsigned(2), row.bytes(3), row.schema(4)))
      }
    try database.prepare("SELECT pipe, queued, acknowledged FROM sent").forEachRow { row in
      outPipeProgressByPipe[row.text(0)] = OutPipeProgress(
        lastQueuedNumber: row.unsigned(1), lastAcknowledged: row.unsigned(2))
    }
    try database.prepare("SELECT pipe, last, count, events, schema FROM outbox ORDER BY pipe, last")
      .forEachRow { row in
        let pipe = row.text(0)
        let (last, count) = (row.unsigned(1), row.unsigned(2))
        guard let acknowledged = outPipeProgressByPipe[pipe]?.lastAcknowledged, count <= last else {
          return
        }
        let before = last - count
        let dropped = acknowledged - min(before, acknowledged)
        outPipeProgressByPipe[pipe]?.events.append(
          row.bytes(3), count: Int(count), droppingFirst: Int(clamping: dropped),
          schema: row.schema(4))
      }
  }

  /// Reads only the progress as a participant, and the version of the last record.
  static func participant(
    of database: Database
  ) throws -> (participant: Participant, version: UInt64)? {
    try database.select("SELECT version FROM record ORDER BY id DESC LIMIT 1") { $0.unsigned(0) }
      .first.map { (try readParticipant(database), $0) }
  }

  private static func readParticipant(_ database: Database) throws -> Participant {
    let applied = try database.select("SELECT epoch, sequence FROM applied") { $0.transaction(0) }
    let prepared = try database.select(
      "SELECT epoch, sequence, version, state, event, schema FROM prepared"
    ) {
      PreparedStep(
        transaction: $0.transaction(0), event: $0.bytes(4),
        move: ParticipantMove(recordedVersion: $0.unsigned(2), state: $0.bytes(3)),
        schema: $0.schema(5))
    }
    return Participant(
      lastApplied: applied.last ?? .zero, preparedStep: prepared.last,
      coordinator: try JournalCheck.metaValue(JournalSnapshot.coordinatorKey, in: database)
        .flatMap { RecordedCoordinator(journalValue: $0) })
  }

  /// Returns the prepared steps of instances, in the order of their transactions.
  static func preparedInstances(
    of database: Database
  ) throws -> [(key: InstanceKey, step: PreparedStep)] {
    guard JournalSchema.hasPreparedInstances(try JournalCheck.version(of: database)) else {
      return []
    }
    return try database.select(
      "SELECT key, epoch, sequence, version, state, event, schema FROM prepared_instance "
        + "ORDER BY epoch, sequence"
    ) {
      (
        InstanceKey(recorded: $0.text(0)),
        PreparedStep(
          transaction: $0.transaction(1), event: $0.bytes(5),
          move: ParticipantMove(recordedVersion: $0.unsigned(3), state: $0.bytes(4)),
          schema: $0.schema(6))
      )
    }
  }

  private static func readEffects(_ database: Database) throws -> [Effect] {
    let now = BootClock.now
    let boot = BootClock.bootID
    return try database.select(
      """
      SELECT version, feedback, state, time, boot, clock, schema FROM effect
      ORDER BY version, feedback
      """
    ) { row in
      let startInstant = BootClock.Instant(timeOfDay: row.integer(3), timeSinceBoot: row.integer(5))
      return Effect(
        origin: EffectOrigin(version: row.unsigned(0), feedback: Int(row.integer(1))),
        state: row.bytes(2),
        elapsedTime: now.duration(since: startInstant, isSameBoot: row.text(4) == boot),
        readInstant: now,
        schema: row.schema(6))
    }
  }
}

// The recorded form of a coordinator: the id of its journal, the transaction and the coordinator's
// name, separated by spaces.
extension RecordedCoordinator {
  var journalValue: String {
    "\(journal) \(lastTransaction.epoch) \(lastTransaction.sequence) \(name)"
  }

  init?(journalValue: String) {
    let parts = journalValue.split(separator: " ", maxSplits: 3)
    guard parts.count == 4, let journal = UInt64(parts[0]), let epoch = UInt64(parts[1]),
      let sequence = UInt64(parts[2])
    else { return nil }
    self.init(
      name: String(parts[3]), journal: journal,
      lastTransaction: TransactionID(epoch: epoch, sequence: sequence))
  }
}

extension DeadLetter {
  /// Reads a dead letter from the columns `id, pipe, sequence, event, reason, state, version,
  /// time, schema`.
  package init(_ row: Row) {
    self.init(
      id: row.unsigned(0), pipe: row.text(1), sequence: row.unsigned(2), event: row.json(3),
      reason: row.text(4), state: row.bytes(5).isEmpty ? nil : row.json(5),
      version: row.unsigned(6), time: row.integer(7), schema: row.schema(8))
  }
}

/// The unacknowledged events of a pipe as JSON, in order. Each event is a slice of its database
/// row, not a copy.
package struct RecordedEvents: Sequence {
  /// An event of a pipe.
  package struct Event {
    package var json: ArraySlice<UInt8>
    /// The schema version of the receiver for which the event is encoded.
    package var schema: Int
  }

  /// A row of the table `outbox`.
  fileprivate struct StoredRow {
    /// The events, one on each line.
    var lines: ArraySlice<UInt8>
    var schema: Int
  }

  private var rows: [StoredRow] = []
  package private(set) var count = 0

  init() {}

  package var isEmpty: Bool { count == 0 }

  /// Adds the events of a row, without the first `dropped` events.
  mutating func append(_ row: [UInt8], count: Int, droppingFirst dropped: Int, schema: Int) {
    guard dropped < count else { return }
    var lines = row[...]
    for _ in 0..<dropped { lines = Self.split(lines).rest ?? [] }
    rows.append(StoredRow(lines: lines, schema: schema))
    self.count += count - dropped
  }

  /// Removes the first `count` events. There must be at least `count` events.
  package mutating func removeFirst(_ count: Int) {
    precondition(count <= self.count)
    var iterator = makeIterator()
    for _ in 0..<count { _ = iterator.next() }
    rows = iterator.remainingRows
    self.count -= count
  }

  package func makeIterator() -> Iterator { Iterator(rows) }

  package struct Iterator: IteratorProtocol {
    private let rows: [StoredRow]
    private var rowIndex = 0
    /// The remaining events of the current row; `nil` after the last event of the row.
    private var restOfRow: StoredRow?

    fileprivate init(_ rows: [StoredRow]) {
      self.rows = rows
    }

    package mutating func next() -> Event? {
      if restOfRow == nil {
        guard rowIndex < rows.count else { return nil }
        restOfRow = rows[rowIndex]
        rowIndex += 1
      }
      guard let current = restOfRow else { return nil }
      let (event, rest) = RecordedEvents.split(current.lines)
      restOfRow = rest.map { StoredRow(lines: $0, schema: current.schema) }
      return Event(json: event, schema: current.schema)
    }

    fileprivate var remainingRows: [StoredRow] {
      (restOfRow.map { [$0] } ?? []) + rows[rowIndex...]
    }
  }

  /// Returns the first line as `event`, and the further lines as `rest`; `rest` is `nil` if there
  /// is only one line.
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
