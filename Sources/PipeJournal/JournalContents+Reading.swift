import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

extension JournalContents {
  private static let letters =
    "SELECT id, pipe, sequence, event, reason, state, version, time FROM letter"
  static let letterQuery = letters + " ORDER BY id"
  /// Some with higher numbers than this, oldest first.
  static func letterQuery(after id: UInt64, limit: Int) -> String {
    letters + " WHERE id > \(Int64(clamping: id)) ORDER BY id LIMIT \(limit)"
  }
  static let letterByID = letters + " WHERE id = ?"

  /// As `DeadLetter.byteCount`.
  private static let letterBytes = ["pipe", "event", "reason", "state"].reduce("100") {
    "\($0) + length(CAST(\($1) AS BLOB))"
  }

  /// Reads all that a node needs to go on; `nil` where it has never entered a state.
  static func read(_ database: Database) throws -> JournalContents? {
    let last = try database.select(
      "SELECT id, version, time, cause, state FROM record ORDER BY id DESC LIMIT 1"
    ) { row in
      Record(
        id: row.integer(0), version: row.unsigned(1), time: row.integer(2), cause: row.text(3),
        state: row.bytes(4))
    }.first
    guard let last else { return nil }
    var contents = JournalContents(record: last)
    try contents.readPipes(database)
    contents.effects = try readEffects(database)
    contents.participant = try readParticipant(database)
    contents.lastDeadLetter = UInt64(
      try JournalCheck.number(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'letter'", in: database))
    contents.deadLetterCount = Int(
      try JournalCheck.number("SELECT count(*) FROM letter", in: database))
    contents.deadLetterBytes = Int(
      try JournalCheck.number("SELECT coalesce(sum(\(letterBytes)), 0) FROM letter", in: database))
    contents.lostDeadLetters = try JournalReader.lostLetters(in: database)
    contents.deadLetters = try database.select(
      "\(letterQuery) DESC LIMIT \(DeadLetter.keptInMemory)"
    ) { DeadLetter($0) }.reversed()
    contents.requests = try database.select("SELECT client, id, version, state FROM request") {
      Request(
        key: RequestKey(client: $0.unsigned(0), id: $0.unsigned(1)), version: $0.unsigned(2),
        state: $0.bytes(3))
    }
    contents.forgottenRequests = try JournalCheck.forgottenRequests(in: database)
    return contents
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

  /// Only the part in synchronized events, and the version of the last record.
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
        .flatMap { KnownCoordinator(journalValue: $0) })
  }

  private static func readEffects(_ database: Database) throws -> [Effect] {
    let now = BootClock.now
    let boot = BootClock.boot
    return try database.select(
      "SELECT version, feedback, state, time, boot, clock FROM effect ORDER BY version, feedback"
    ) { row in
      let then = BootClock.Instant(time: row.integer(3), clock: row.integer(5))
      return Effect(
        origin: EffectOrigin(version: row.unsigned(0), feedback: Int(row.integer(1))),
        state: row.bytes(2),
        elapsed: now.duration(since: then, isSameBoot: row.text(4) == boot))
    }
  }
}

// As the journal has it: the id, the transaction and the name, with a space between them.
extension KnownCoordinator {
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
  /// Reads `id, pipe, sequence, event, reason, state, version, time`.
  package init(_ row: Row) {
    self.init(
      id: row.unsigned(0), pipe: row.text(1), sequence: row.unsigned(2), event: row.json(3),
      reason: row.text(4), state: row.bytes(5).isEmpty ? nil : row.json(5),
      version: row.unsigned(6),
      time: row.integer(7))
  }
}
