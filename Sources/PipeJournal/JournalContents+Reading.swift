import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

extension JournalContents {
  static let letterQuery =
    "SELECT id, pipe, sequence, event, reason, state, version, time FROM letter ORDER BY id"

  /// As `DeadLetter.byteCount`.
  private static let letterBytes = ["pipe", "event", "reason", "state"].reduce("100") {
    "\($0) + length(CAST(\($1) AS BLOB))"
  }

  /// Reads all that a node needs to go on; `nil` where it has never entered a state.
  static func read(_ database: Database) throws -> JournalContents? {
    var contents: JournalContents?
    try database.prepare(
      "SELECT id, version, time, cause, state FROM record ORDER BY id DESC LIMIT 1"
    ).rows { row in
      contents = JournalContents(
        record: Record(
          id: row.integer(0), version: row.unsigned(1), time: row.integer(2), cause: row.text(3),
          state: row.bytes(4)))
    }
    guard contents != nil else { return nil }
    try contents!.readPipes(database)
    try contents!.readEffects(database)
    contents!.participant = try readParticipant(database)
    contents!.lastDeadLetter = UInt64(
      try JournalCheck.number(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'letter'", in: database))
    contents!.deadLetterCount = Int(
      try JournalCheck.number("SELECT count(*) FROM letter", in: database))
    contents!.deadLetterBytes = Int(
      try JournalCheck.number("SELECT coalesce(sum(\(letterBytes)), 0) FROM letter", in: database))
    contents!.lostDeadLetters = try JournalReader.lostLetters(in: database)
    try database.prepare("\(letterQuery) DESC LIMIT \(DeadLetter.keptInMemory)").rows { row in
      contents!.deadLetters.append(DeadLetter(row))
    }
    contents!.deadLetters.reverse()
    try database.prepare("SELECT client, id, version, state FROM request").rows { row in
      contents!.requests.append(
        Request(
          key: RequestKey(client: row.unsigned(0), id: row.unsigned(1)), version: row.unsigned(2),
          state: row.bytes(3)))
    }
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
        guard let acknowledged = sent[pipe]?.acknowledged else { return }
        var sequence = row.unsigned(1) - row.unsigned(2) + 1
        for event in row.bytes(3).split(separator: 0x0A, omittingEmptySubsequences: false) {
          if sequence > acknowledged { sent[pipe]?.events.append(Array(event)) }
          sequence += 1
        }
      }
  }

  /// Only the part in synchronized events, and the version of the last record.
  static func participant(
    of database: Database
  ) throws -> (participant: Participant, version: UInt64)? {
    var version: UInt64?
    try database.prepare("SELECT version FROM record ORDER BY id DESC LIMIT 1").rows {
      version = $0.unsigned(0)
    }
    return try version.map { (try readParticipant(database), $0) }
  }

  private static func readParticipant(_ database: Database) throws -> Participant {
    var participant = Participant()
    try database.prepare("SELECT epoch, sequence FROM applied").rows { row in
      participant.applied = TransactionID(epoch: row.unsigned(0), sequence: row.unsigned(1))
    }
    try database.prepare("SELECT epoch, sequence, version, state, event FROM prepared")
      .rows { row in
        participant.prepared = PreparedStep(
          transaction: TransactionID(epoch: row.unsigned(0), sequence: row.unsigned(1)),
          event: row.bytes(4),
          move: ParticipantMove(version: row.unsigned(2), state: row.bytes(3)))
      }
    return participant
  }

  private mutating func readEffects(_ database: Database) throws {
    let now = BootClock.now
    let boot = BootClock.boot
    let rows = try database.prepare(
      """
      SELECT version, feedback, state, time, boot, clock FROM effect ORDER BY version, feedback
      """)
    try rows.rows { row in
      let then = BootClock.Instant(time: row.integer(3), clock: row.integer(5))
      effects.append(
        Effect(
          origin: EffectOrigin(version: row.unsigned(0), feedback: Int(row.integer(1))),
          state: row.bytes(2),
          elapsed: now.duration(since: then, isSameBoot: row.text(4) == boot)))
    }
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
