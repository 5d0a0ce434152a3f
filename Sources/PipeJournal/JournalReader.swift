import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// A reader of a node's journal. The node may be running, because SQLite's write-ahead log permits
/// concurrent reads.
///
/// If the step marker file contains records that the database lacks, the reader adds them to an
/// in-memory copy of the database.
package struct JournalReader {
  package let path: String
  let node: String
  let database: Database

  /// Opens the journal read-only.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    do {
      guard try JournalCheck.exists(path, node: node) else {
        throw JournalError.missing(path: path, node: node)
      }
      // Reads the log before the database. If the node moves records from the log into the database
      // in between, the reader finds these records in the database.
      let log = StepMarkerFile.logWords(ofJournal: path)
      let file = try Database(path, .readOnly)
      file.keepLogOnClose()
      try JournalCheck.checkIntegrity(file, path, node: node)
      database = try Self.withRecords(of: log, file, path, node: node)
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Returns the database itself or, if the log has further records, a copy that contains these
  /// records.
  private static func withRecords(
    of log: [UInt64], _ file: Database, _ path: String, node: String
  ) throws -> Database {
    let stream = try JournalCheck.streamID(of: file, path, node: node)
    return try log.withUnsafeBufferPointer { words in
      guard let start = words.baseAddress else {
        try JournalSchema.addViews(to: file, of: try JournalCheck.version(of: file))
        return file
      }
      func records(_ database: Database) throws -> [UnsafeRawBufferPointer] {
        RecordLog.records(
          start, count: words.count, stream: stream,
          after: try RecordWriter.lastWrittenNumber(in: database))
      }
      guard try !records(file).isEmpty else {
        try JournalSchema.addViews(to: file, of: try JournalCheck.version(of: file))
        return file
      }
      let copy = try file.copy()
      let version = try JournalCheck.version(of: copy)
      try JournalSchema.upgradeTables(copy, from: version)
      let missing = try records(copy)
      if !missing.isEmpty { try RecordWriter(copy).write(missing, through: 0) }
      try JournalSchema.upgradeContents(copy, from: version)
      return copy
    }
  }

  /// Returns the names of the nodes that have a journal, or only its '-wal' file, in `directory`.
  package static func nodesWithJournals(in directory: String) -> [String] {
    let names = FileSystem.entryNames(of: directory).compactMap { name in
      [".sqlite", ".sqlite-wal"].first { name.hasSuffix($0) }.map {
        String(name.dropLast($0.count))
      }
    }
    return Set(names).sorted()
  }

  /// Returns the contents of the journal at one moment.
  /// - Parameter limit: The maximum number of records to read, and the maximum number of events to
  ///   read of each pipe.
  package func snapshot(limit: Int) throws(JournalError) -> JournalSnapshot {
    try readConsistently {
      var snapshot = JournalSnapshot(
        path: path, byteCount: byteCount, topology: try metaValue("topology"),
        node: try metaValue("node"),
        machine: try metaValue("machine"), created: try metaValue("created"),
        id: String(try JournalCheck.streamID(of: database, path, node: node), radix: 16))
      snapshot.stateFields = try Self.stateFields(in: database)
      // The last record has the current state, so at least one record is read.
      snapshot.records = try records(limit: max(1, limit))
      snapshot.ins = try inPipes(limit: limit)
      snapshot.outs = try outPipes(limit: limit)
      snapshot.effects = try database.select(
        // Omits effects that are dead letters, because they do not run any more.
        """
        SELECT version, state, time FROM effect WHERE feedback >= 0 AND NOT EXISTS (
          SELECT 1 FROM dead_letter WHERE dead_letter.sequence = effect.version AND dead_letter.pipe GLOB
            CASE feedback WHEN 0 THEN 'effect *' ELSE 'feedback ' || feedback END
        ) ORDER BY version
        """
      ) { .init(version: $0.unsigned(0), state: $0.json(1), time: $0.integer(2)) }
      snapshot.timer = try database.select(
        """
        SELECT version, time, time + CAST(state AS INTEGER) FROM effect WHERE feedback = -1
          AND NOT EXISTS (
            SELECT 1 FROM dead_letter
            WHERE dead_letter.sequence = effect.version AND dead_letter.pipe GLOB 'timer *')
        """
      ) {
        JournalSnapshot.Timer(
          version: $0.unsigned(0), time: $0.integer(1), due: $0.integer(2))
      }.last
      snapshot.deadLetterCount = Int(
        try JournalCheck.selectNumber(Self.countQuery("dead_letter"), in: database))
      snapshot.lostDeadLetters = try Self.lostDeadLetterCount(in: database)
      snapshot.requestCount = Int(
        try JournalCheck.selectNumber(Self.countQuery("request"), in: database))
      snapshot.unacknowledgedCount = Int(
        try JournalCheck.selectNumber(
          "SELECT count(*) FROM committed WHERE acknowledged = 0", in: database))
      let instances = try JournalContents.preparedInstances(of: database)
      snapshot.prepared = try instances.first.map { Self.prepared($0.step) } ?? preparedStep()
      snapshot.preparedInstanceCount = instances.count
      return snapshot
    }
  }

  /// The name of the machine that the journal belongs to.
  package var machine: String {
    get throws(JournalError) { try readConsistently { try metaValue("machine") } }
  }

  /// Returns the dead letters with ids above `id`, oldest first.
  package func deadLetters(after id: UInt64, limit: Int) throws(JournalError) -> [DeadLetter] {
    try readConsistently {
      try database.select(JournalContents.deadLetterQuery(after: id, limit: limit)) {
        DeadLetter($0)
      }
    }
  }

  /// Returns the number of refused events that were discarded because the journal had the maximum
  /// number of dead letters.
  package func lostDeadLetterCount() throws(JournalError) -> UInt64 {
    try readConsistently { try Self.lostDeadLetterCount(in: database) }
  }

  static func lostDeadLetterCount(in database: Database) throws -> UInt64 {
    try JournalCheck.metaValue(JournalSnapshot.deadLettersLostKey, in: database).flatMap {
      UInt64($0)
    }
      ?? 0
  }

  /// Runs the queries of `body` in one transaction, so that all of them read the same contents.
  func readConsistently<Value>(_ body: () throws -> Value) throws(JournalError) -> Value {
    do {
      try database.execute("BEGIN")
      defer { try? database.execute("COMMIT") }
      return try body()
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  private static func countQuery(_ table: String) -> String { "SELECT count(*) FROM \(table)" }

  private func metaValue(_ key: String) throws -> String {
    try JournalCheck.metaValue(key, in: database) ?? ""
  }

  private func records(limit: Int) throws -> [JournalSnapshot.Record] {
    let states = RecordedStateReader(database)
    return try database.select(
      """
      SELECT version, incarnation, time, cause, steps, id, base, state FROM record ORDER BY id DESC LIMIT ?
      """,
      .integer(Int64(limit))
    ) { row in
      .init(
        version: row.unsigned(0), incarnation: row.unsigned(1), time: row.integer(2),
        cause: row.text(3), stepCount: row.unsigned(4),
        state: JSONValue(lenient: try states.state(of: row, at: 5)))
    }.reversed()
  }

  private func inPipes(limit: Int) throws -> [JournalSnapshot.InPipe] {
    var ins = try database.select(
      """
      SELECT pipe, stream, applied, closed,
        (SELECT count(*) FROM postponed WHERE postponed.pipe = consumed.pipe)
      FROM consumed ORDER BY pipe
      """
    ) { row in
      JournalSnapshot.InPipe(
        name: row.text(0), stream: String(row.unsigned(1), radix: 16),
        lastConsumedNumber: row.unsigned(2),
        senderClosed: row.integer(3) != 0, postponedCount: Int(row.integer(4)))
    }
    let postponed = try database.prepare(
      "SELECT sequence, event FROM postponed WHERE pipe = ? ORDER BY id LIMIT ?")
    for index in ins.indices {
      try postponed.forEachRow(.text(ins[index].name), .integer(Int64(limit))) { row in
        ins[index].postponed.append(.init(sequence: row.unsigned(0), event: row.json(1)))
      }
    }
    return ins
  }

  private func outPipes(limit: Int) throws -> [JournalSnapshot.OutPipe] {
    var outs = try database.select(
      "SELECT pipe, queued, acknowledged FROM sent ORDER BY pipe"
    ) { row in
      JournalSnapshot.OutPipe(
        name: row.text(0), queued: row.unsigned(1), acknowledged: row.unsigned(2))
    }
    // Each row contains one or more events.
    let outbox = try database.prepare(
      """
      SELECT last, count, events FROM outbox WHERE pipe = ? AND last > ? ORDER BY last LIMIT ?
      """)
    for index in outs.indices {
      let acknowledged = outs[index].acknowledged
      try outbox.forEachRow(
        .text(outs[index].name), .integer(acknowledged), .integer(Int64(limit))
      ) { row in
        var sequence = row.unsigned(0) - row.unsigned(1)
        for event in row.bytes(2).split(separator: 0x0A, omittingEmptySubsequences: false) {
          sequence += 1
          guard sequence > acknowledged, outs[index].unacknowledgedEvents.count < limit else {
            continue
          }
          outs[index].unacknowledgedEvents.append(
            .init(sequence: sequence, event: JSONValue(lenient: event)))
        }
      }
    }
    return outs
  }

  /// Returns the node's prepared step for display; `nil` if its transaction has ended.
  private func preparedStep() throws -> JournalSnapshot.Prepared? {
    try pendingStep().map(Self.prepared)
  }

  private static func prepared(_ step: PreparedStep) -> JournalSnapshot.Prepared {
    let body = TransactionBody(step.event)
    return JournalSnapshot.Prepared(
      transaction: step.transaction, composite: body?.composite ?? "",
      event: JSONValue(lenient: body?.event ?? []))
  }

  /// Returns the node's prepared step; `nil` if its transaction has ended.
  func pendingStep() throws -> PreparedStep? {
    guard var contents = try JournalContents.participant(of: database) else { return nil }
    if let preparedRecord = StepMarkerFile.preparedStep(ofJournal: path) {
      contents.participant.add(preparedRecord, at: contents.version)
    }
    let participant = contents.participant
    guard let step = participant.preparedStep, step.transaction > participant.lastApplied,
      step.move.version == contents.version + 1
    else { return nil }
    return step
  }

  private var byteCount: Int64 {
    ["", "-wal"].reduce(0) { sum, suffix in
      var status = stat()
      return stat(path + suffix, &status) == 0 ? sum + Int64(status.st_size) : sum
    }
  }
}

extension Row {
  /// Returns a column as JSON, or as a string if the column does not contain JSON.
  func json(_ column: Int32) -> JSONValue { JSONValue(lenient: bytes(column)) }
}

extension JSONValue {
  fileprivate init(lenient bytes: some Collection<UInt8>) {
    self =
      (try? JSONValue(parsing: Array(bytes))) ?? .string(String(decoding: bytes, as: UTF8.self))
  }
}
