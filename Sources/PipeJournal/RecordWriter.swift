import CSQLite

/// A writer of records into a database. Each call writes all of its records in one transaction, or
/// none.
final class RecordWriter {
  private let database: Database
  private let begin, commit, rollback: Statement
  /// The prepared statements, by the raw value of their operation. Each statement is prepared on
  /// its first use, because most nodes need only a few statements.
  private var statements = [Statement?](repeating: nil, count: 256)
  /// Whether ``holdWrites()`` has begun a transaction to which all writes belong.
  private(set) var isHeld = false

  /// The key of the table `meta` for the number of the last record that the database has.
  private static let writtenKey = "written"

  init(_ database: Database) throws(DatabaseError) {
    self.database = database
    begin = try database.prepare("BEGIN IMMEDIATE")
    commit = try database.prepare("COMMIT")
    rollback = try database.prepare("ROLLBACK")
  }

  /// Returns the number of the last record that is in the database.
  static func lastWrittenNumber(in database: Database) throws -> UInt64 {
    try JournalCheck.metaValue(writtenKey, in: database).flatMap { UInt64($0) } ?? 0
  }

  /// Writes a single record that is not in the log, together with its number.
  func write(_ record: [UInt8], as number: UInt64) throws {
    try transaction {
      try record.withUnsafeBytes { bytes in
        for operation in try EncodedOperation.operations(in: bytes) { try run(operation) }
      }
      try storeNumber(number)
    }
  }

  /// Writes the records of a log.
  /// - Parameter number: The number of the last of these records.
  func write(_ records: [UnsafeRawBufferPointer], through number: UInt64) throws {
    try transaction {
      for operation in try EffectiveOperations(records).operations { try run(operation) }
      try storeNumber(number)
    }
  }

  private func storeNumber(_ number: UInt64) throws(DatabaseError) {
    try statement(of: .meta).run(.text(Self.writtenKey), .text(String(number)))
  }

  /// Begins a transaction that contains all writes until ``releaseWrites()``. If the process ends
  /// before that call, the file remains unchanged.
  func holdWrites() throws(DatabaseError) {
    // Prevents SQLite from writing pages into the write-ahead log when the cache is full.
    try database.execute("PRAGMA cache_spill = OFF")
    try begin.run()
    isHeld = true
  }

  func releaseWrites() throws(DatabaseError) {
    try commit.run()
    isHeld = false
    try database.execute("PRAGMA cache_spill = ON")
  }

  func transaction(_ body: () throws -> Void) throws {
    if isHeld { return try body() }
    try begin.run()
    do {
      try body()
      try commit.run()
    } catch {
      try? rollback.run()
      throw error
    }
  }

  private func run(_ operation: EncodedOperation) throws(DatabaseError) {
    try statement(of: operation.operation).run(operation.values)
  }

  private func statement(of operation: JournalOperation) throws(DatabaseError) -> Statement {
    let index = Int(operation.rawValue)
    if let statement = statements[index] { return statement }
    let statement = try database.prepare(operation.statement)
    statements[index] = statement
    return statement
  }
}
