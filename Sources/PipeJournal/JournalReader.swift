import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// Reads a node's journal, even while the node runs: SQLite's write-ahead log permits that.
///
/// If records wait in the journal's own log, the reader reads a copy in memory that includes
/// them.
package struct JournalReader {
  package let path: String
  private let node: String
  let database: Database

  /// Opens the file for reading only.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    do {
      guard try JournalCheck.exists(path, node: node) else {
        throw JournalError.missing(path: path, node: node)
      }
      // The log first: records that move from the log into the database after that are read there.
      let log = StepMarkerFile.log(ofJournal: path)
      let file = try Database(path, .readOnly)
      file.keepLogOnClose()
      try JournalCheck.checkIntegrity(file, path, node: node)
      database = try Self.withRecords(of: log, file, path, node: node)
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Returns the database, or a copy of it with the records that it lacks.
  private static func withRecords(
    of log: [UInt64], _ file: Database, _ path: String, node: String
  ) throws -> Database {
    let stream = try JournalCheck.stream(of: file, path, node: node)
    return try log.withUnsafeBufferPointer { words in
      guard let start = words.baseAddress else {
        try JournalSchema.addViews(to: file, of: try JournalCheck.version(of: file))
        return file
      }
      func records(_ database: Database) throws -> [UnsafeRawBufferPointer] {
        RecordLog.records(
          start, count: words.count, stream: stream,
          after: try RecordWriter.written(to: database))
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

  /// Returns the nodes that have a journal in a directory, or the remains of one.
  package static func nodes(in directory: String) -> [String] {
    let names = FileSystem.entries(of: directory).compactMap { name in
      [".sqlite", ".sqlite-wal"].first { name.hasSuffix($0) }.map {
        String(name.dropLast($0.count))
      }
    }
    return Set(names).sorted()
  }

  /// Returns the contents at one moment.
  /// - Parameter limit: The maximum number of records, and of events of each pipe, to read.
  package func snapshot(limit: Int) throws(JournalError) -> JournalSnapshot {
    try read {
      var snapshot = JournalSnapshot(
        path: path, byteCount: byteCount, topology: try meta("topology"), node: try meta("node"),
        machine: try meta("machine"), created: try meta("created"),
        id: String(try JournalCheck.stream(of: database, path, node: node), radix: 16))
      snapshot.stateFields = try Self.fields(in: database)
      // The current state is always among the records.
      snapshot.records = try records(limit: max(1, limit))
      snapshot.ins = try ins(limit: limit)
      snapshot.outs = try outs(limit: limit)
      snapshot.effects = try database.select(
        // Effects that are dead letters do not run.
        """
        SELECT version, state, time FROM effect WHERE NOT EXISTS (
          SELECT 1 FROM dead_letter WHERE dead_letter.sequence = effect.version AND dead_letter.pipe GLOB
            CASE feedback WHEN 0 THEN 'effect *' ELSE 'feedback ' || feedback END
        ) ORDER BY version
        """
      ) { .init(version: $0.unsigned(0), state: $0.json(1), time: $0.integer(2)) }
      snapshot.deadLetterCount = Int(
        try JournalCheck.number(Self.count("dead_letter"), in: database))
      snapshot.lostDeadLetters = try Self.lostDeadLetters(in: database)
      snapshot.requestCount = Int(try JournalCheck.number(Self.count("request"), in: database))
      snapshot.unacknowledgedCount = Int(
        try JournalCheck.number(
          "SELECT count(*) FROM committed WHERE acknowledged = 0", in: database))
      snapshot.prepared = try prepared()
      return snapshot
    }
  }

  /// The machine that the journal belongs to.
  package var machine: String {
    get throws(JournalError) { try read { try meta("machine") } }
  }

  /// Returns the oldest dead letters with higher numbers than this.
  package func deadLetters(after id: UInt64, limit: Int) throws(JournalError) -> [DeadLetter] {
    try read {
      try database.select(JournalContents.deadLetterQuery(after: id, limit: limit)) {
        DeadLetter($0)
      }
    }
  }

  /// Returns the number of refused events that were lost, since there were too many dead letters.
  package func lostDeadLetters() throws(JournalError) -> UInt64 {
    try read { try Self.lostDeadLetters(in: database) }
  }

  static func lostDeadLetters(in database: Database) throws -> UInt64 {
    try JournalCheck.meta(JournalSnapshot.deadLettersLostKey, in: database).flatMap { UInt64($0) }
      ?? 0
  }

  /// Runs queries that all see the database at the same moment.
  func read<Value>(_ body: () throws -> Value) throws(JournalError) -> Value {
    do {
      try database.execute("BEGIN")
      defer { try? database.execute("COMMIT") }
      return try body()
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  private static func count(_ table: String) -> String { "SELECT count(*) FROM \(table)" }

  private func meta(_ key: String) throws -> String {
    try JournalCheck.meta(key, in: database) ?? ""
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
        cause: row.text(3), steps: row.unsigned(4),
        state: JSONValue(lenient: try states.state(of: row, at: 5)))
    }.reversed()
  }

  private func ins(limit: Int) throws -> [JournalSnapshot.InPipe] {
    var ins = try database.select(
      """
      SELECT pipe, stream, applied, closed,
        (SELECT count(*) FROM postponed WHERE postponed.pipe = consumed.pipe)
      FROM consumed ORDER BY pipe
      """
    ) { row in
      JournalSnapshot.InPipe(
        name: row.text(0), stream: String(row.unsigned(1), radix: 16), consumed: row.unsigned(2),
        senderClosed: row.integer(3) != 0, postponedCount: Int(row.integer(4)))
    }
    let postponed = try database.prepare(
      "SELECT sequence, event FROM postponed WHERE pipe = ? ORDER BY id LIMIT ?")
    for index in ins.indices {
      try postponed.rows(.text(ins[index].name), .integer(Int64(limit))) { row in
        ins[index].postponed.append(.init(sequence: row.unsigned(0), event: row.json(1)))
      }
    }
    return ins
  }

  private func outs(limit: Int) throws -> [JournalSnapshot.OutPipe] {
    var outs = try database.select(
      "SELECT pipe, queued, acknowledged FROM sent ORDER BY pipe"
    ) { row in
      JournalSnapshot.OutPipe(
        name: row.text(0), queued: row.unsigned(1), acknowledged: row.unsigned(2))
    }
    // A row holds one event or more.
    let outbox = try database.prepare(
      """
      SELECT last, count, events FROM outbox WHERE pipe = ? AND last > ? ORDER BY last LIMIT ?
      """)
    for index in outs.indices {
      let acknowledged = outs[index].acknowledged
      try outbox.rows(
        .text(outs[index].name), .integer(acknowledged), .integer(Int64(limit))
      ) { row in
        var sequence = row.unsigned(0) - row.unsigned(1)
        for event in row.bytes(2).split(separator: 0x0A, omittingEmptySubsequences: false) {
          sequence += 1
          guard sequence > acknowledged, outs[index].waiting.count < limit else { continue }
          outs[index].waiting.append(.init(sequence: sequence, event: JSONValue(lenient: event)))
        }
      }
    }
    return outs
  }

  /// Returns the step that the node is prepared for, if its transaction has not ended.
  private func prepared() throws -> JournalSnapshot.Prepared? {
    guard var contents = try JournalContents.participant(of: database) else { return nil }
    if let preparedRecord = StepMarkerFile.prepared(ofJournal: path) {
      contents.participant.add(preparedRecord, at: contents.version)
    }
    let participant = contents.participant
    guard let step = participant.prepared, step.transaction > participant.applied,
      step.move.version == contents.version + 1
    else { return nil }
    let body = TransactionBody(step.event)
    return JournalSnapshot.Prepared(
      transaction: step.transaction, composite: body?.composite ?? "",
      event: JSONValue(lenient: body?.event ?? []))
  }

  private var byteCount: Int64 {
    ["", "-wal"].reduce(0) { sum, suffix in
      var status = stat()
      return stat(path + suffix, &status) == 0 ? sum + Int64(status.st_size) : sum
    }
  }
}

extension Row {
  /// Returns a column as JSON, or its text as a string if it is not JSON.
  func json(_ column: Int32) -> JSONValue { JSONValue(lenient: bytes(column)) }
}

extension JSONValue {
  fileprivate init(lenient bytes: some Collection<UInt8>) {
    self =
      (try? JSONValue(parsing: Array(bytes))) ?? .string(String(decoding: bytes, as: UTF8.self))
  }
}

/// The checks of a file before it is read as a journal.
enum JournalCheck {
  /// Whether there is a journal, judged by the files alone. SQLite itself would take an empty file
  /// for a new database and discard the log beside it.
  static func exists(_ path: String, node: String) throws -> Bool {
    var status = stat()
    if stat(path, &status) == 0 {
      guard status.st_mode & S_IFMT == S_IFREG else {
        throw JournalError.inaccessible(path: path, node: node, reason: "not a regular file")
      }
      guard status.st_size > 0 else {
        throw JournalError.damaged(path: path, node: node, reason: "the file is empty")
      }
      return true
    }
    guard errno == ENOENT else {
      throw JournalError.inaccessible(
        path: path, node: node, reason: SystemError.text(of: errno))
    }
    // SQLite would read the log into a new journal.
    if stat(path + "-wal", &status) == 0, status.st_size > 0 {
      throw JournalError.damaged(
        path: path, node: node, reason: "the file is missing, but its '-wal' file exists")
    }
    return false
  }

  /// Throws if the file is not a journal, has another version, or is inconsistent.
  static func checkIntegrity(_ database: Database, _ path: String, node: String) throws {
    try checkVersion(database, path, node: node)
    let checkResult = try database.select("PRAGMA quick_check(1)") { $0.text(0) }.last
    if let checkResult, checkResult != "ok" {
      let line = checkResult.split(separator: "\n").joined(separator: " ")
      throw JournalError.damaged(path: path, node: node, reason: line)
    }
  }

  /// Throws if the file is not a journal, or has another version.
  static func checkVersion(_ database: Database, _ path: String, node: String) throws {
    guard try number("PRAGMA application_id", in: database) == JournalSchema.application else {
      throw JournalError.damaged(path: path, node: node, reason: "the file is not a journal")
    }
    let version = try version(of: database)
    guard JournalSchema.readable.contains(version) else {
      throw JournalError.otherVersion(path: path, node: node, found: version)
    }
  }

  /// Returns the version of the tables.
  static func version(of database: Database) throws -> Int64 {
    try number("PRAGMA user_version", in: database)
  }

  /// Returns the random id of the journal.
  static func stream(of database: Database, _ path: String, node: String) throws -> UInt64 {
    guard let stream = try meta("id", in: database).flatMap({ UInt64($0) }) else {
      throw JournalError.damaged(path: path, node: node, reason: "the journal has no id")
    }
    return stream
  }

  /// Returns the highest request number of a forgotten client.
  static func forgottenRequests(in database: Database) throws -> UInt64 {
    try meta(JournalSnapshot.forgottenRequestsKey, in: database).flatMap { UInt64($0) } ?? 0
  }

  static func number(_ sql: String, in database: Database) throws -> Int64 {
    try database.select(sql) { $0.integer(0) }.first ?? 0
  }

  static func meta(_ key: String, in database: Database) throws -> String? {
    try database.select("SELECT value FROM meta WHERE key = ?", .text(key)) { $0.text(0) }.first
  }
}
