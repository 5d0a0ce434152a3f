import CSQLite

/// Writes records into a database: all of them in one transaction, or none.
final class RecordWriter {
  private let database: Database
  private let begin, commit, rollback: Statement
  /// The prepared statements, by the numbers of their operations. Most nodes need few of them.
  private var statements = [Statement?](repeating: nil, count: 256)
  /// Whether all writes are part of one transaction that has not ended.
  private(set) var isHeld = false

  /// The key of the table `meta` for the number of the last record that the database has.
  private static let writtenKey = "written"

  init(_ database: Database) throws(DatabaseError) {
    self.database = database
    begin = try database.prepare("BEGIN IMMEDIATE")
    commit = try database.prepare("COMMIT")
    rollback = try database.prepare("ROLLBACK")
  }

  /// Returns the number of the last record that the database has.
  static func written(to database: Database) throws -> UInt64 {
    try JournalCheck.meta(writtenKey, in: database).flatMap { UInt64($0) } ?? 0
  }

  /// Writes a record that is in no log, under its number.
  func write(_ record: [UInt8], as number: UInt64) throws {
    try transaction {
      try record.withUnsafeBytes { bytes in
        for operation in try EncodedOperation.all(in: bytes) { try run(operation) }
      }
      try storeNumber(number)
    }
  }

  /// Writes the records of a log, up to the record of this number.
  func write(_ records: [UnsafeRawBufferPointer], through number: UInt64) throws {
    try transaction {
      for operation in try EffectiveOperations(records).operations { try run(operation) }
      try storeNumber(number)
    }
  }

  private func storeNumber(_ number: UInt64) throws(DatabaseError) {
    try statement(of: .meta).run(.text(Self.writtenKey), .text(String(number)))
  }

  /// Makes one transaction of all writes until ``release()``. The file stays unchanged if that is
  /// never called.
  func hold() throws(DatabaseError) {
    // Otherwise pages beyond the capacity of the cache would go into the file's log.
    try database.execute("PRAGMA cache_spill = OFF")
    try begin.run()
    isHeld = true
  }

  func release() throws(DatabaseError) {
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
