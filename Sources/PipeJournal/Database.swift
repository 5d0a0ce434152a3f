import CSQLite
import PipeMachines
import PipeSystem

/// A connection to a SQLite database. Only one thread may use a connection.
final class Database {
  let path: String
  private let handle: OpaquePointer

  /// Opens a database file. The mode `create` creates a missing file.
  init(_ path: String, _ mode: Mode) throws(DatabaseError) {
    self.path = path
    var handle: OpaquePointer?
    let code = sqlite3_open_v2(path, &handle, mode.flags | SQLITE_OPEN_NOMUTEX, nil)
    guard code == SQLITE_OK, let handle else {
      let error = DatabaseError(handle, resultCode: code)
      sqlite3_close_v2(handle)
      throw error
    }
    self.handle = handle
    sqlite3_extended_result_codes(handle, 1)
    // Waits up to two seconds for a lock that a reader of the database holds.
    sqlite3_busy_timeout(handle, 2_000)
  }

  deinit { sqlite3_close_v2(handle) }

  enum Mode {
    case create, readWrite, readOnly

    fileprivate var flags: Int32 {
      switch self {
      case .create: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
      case .readWrite: SQLITE_OPEN_READWRITE
      case .readOnly: SQLITE_OPEN_READONLY
      }
    }
  }

  /// Runs SQL statements that return no rows.
  func execute(_ sql: String) throws(DatabaseError) {
    let code = sqlite3_exec(handle, sql, nil, nil, nil)
    guard code == SQLITE_OK else { throw error(code) }
  }

  func prepare(_ sql: String) throws(DatabaseError) -> Statement {
    var statement: OpaquePointer?
    let code = sqlite3_prepare_v3(
      handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
    guard code == SQLITE_OK, let statement else { throw error(code) }
    return Statement(statement, of: self)
  }

  /// Runs a query with `values` bound to its parameters. Converts each row with `value`.
  func select<Value>(
    _ sql: String, _ values: SQLValue..., as value: (Row) throws -> Value
  ) throws -> [Value] { try select(sql, values, as: value) }

  func select<Value>(
    _ sql: String, _ values: [SQLValue], as value: (Row) throws -> Value
  ) throws -> [Value] {
    var results: [Value] = []
    try prepare(sql).forEachRow(values) { results.append(try value($0)) }
    return results
  }

  /// Returns an in-memory copy of the database at one moment.
  func copy() throws(DatabaseError) -> Database {
    let copy = try Database(":memory:", .create)
    guard let backup = sqlite3_backup_init(copy.handle, "main", handle, "main") else {
      throw copy.error(sqlite3_errcode(copy.handle))
    }
    let code = sqlite3_backup_step(backup, -1)
    sqlite3_backup_finish(backup)
    guard code == SQLITE_DONE else { throw error(code) }
    return copy
  }

  /// Writes a copy of the database into a new file. If a transaction is open, the copy has the
  /// contents that the transaction reads.
  func copy(to path: String) throws(DatabaseError) {
    let copy = try Database(path, .create)
    // Does not synchronize each write, which would be slow. The file is synchronized when it is
    // complete.
    try copy.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
    guard let backup = sqlite3_backup_init(copy.handle, "main", handle, "main") else {
      throw copy.error(sqlite3_errcode(copy.handle))
    }
    let code = sqlite3_backup_step(backup, -1)
    sqlite3_backup_finish(backup)
    guard code == SQLITE_DONE else { throw copy.error(code) }
  }

  /// Makes SQLite keep the write-ahead log when the last connection closes. Otherwise, SQLite would
  /// copy the log into the database, and so delay the process exit.
  func keepLogOnClose() {
    pr_keep_log_on_close(handle)
  }

  fileprivate func error(_ code: Int32) -> DatabaseError { DatabaseError(handle, resultCode: code) }
}

/// A prepared statement.
final class Statement {
  private let statement: OpaquePointer
  private unowned let database: Database

  fileprivate init(_ statement: OpaquePointer, of database: Database) {
    self.statement = statement
    self.database = database
  }

  deinit { sqlite3_finalize(statement) }

  /// Runs the statement to completion, with `values` bound to its parameters.
  func run(_ values: SQLValue...) throws(DatabaseError) {
    bind(values)
    try finish()
  }

  /// Runs the statement to completion. Does not copy the text values.
  func run(_ values: [EncodedOperation.Value]) throws(DatabaseError) {
    if values.count < sqlite3_bind_parameter_count(statement) { sqlite3_clear_bindings(statement) }
    for (index, value) in values.enumerated() {
      let parameterIndex = Int32(index + 1)
      switch value {
      case .integer(let integer): sqlite3_bind_int64(statement, parameterIndex, integer)
      case .null: sqlite3_bind_null(statement, parameterIndex)
      // SQLite does not copy the text, because the statement does not use the text after this call.
      case .text(let bytes): bind(bytes, at: parameterIndex, nil)
      }
    }
    try finish()
  }

  private func finish() throws(DatabaseError) {
    var code = sqlite3_step(statement)
    while code == SQLITE_ROW { code = sqlite3_step(statement) }
    // Ignores the result of `sqlite3_reset`: it is the code that `sqlite3_step` returned.
    sqlite3_reset(statement)
    guard code == SQLITE_DONE else { throw database.error(code) }
  }

  /// Runs the statement, and calls `row` for each row.
  func forEachRow(_ values: SQLValue..., row: (Row) throws -> Void) throws {
    try forEachRow(values, row: row)
  }

  fileprivate func forEachRow(_ values: [SQLValue], row: (Row) throws -> Void) throws {
    bind(values)
    defer { sqlite3_reset(statement) }
    while true {
      let code = sqlite3_step(statement)
      if code == SQLITE_DONE { return }
      guard code == SQLITE_ROW else { throw database.error(code) }
      try row(Row(statement: statement))
    }
  }

  private func bind(_ values: [SQLValue]) {
    for (index, value) in values.enumerated() {
      let parameterIndex = Int32(index + 1)
      switch value {
      case .integer(let integer): sqlite3_bind_int64(statement, parameterIndex, integer)
      case .null: sqlite3_bind_null(statement, parameterIndex)
      case .text(let bytes):
        // SQLite copies the text, because the statement uses the text after this call.
        let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        bytes.withUnsafeBytes { bind($0, at: parameterIndex, transient) }
      }
    }
  }

  private func bind(
    _ text: UnsafeRawBufferPointer, at parameterIndex: Int32, _ destructor: sqlite3_destructor_type?
  ) {
    if let start = text.baseAddress?.assumingMemoryBound(to: CChar.self), !text.isEmpty {
      sqlite3_bind_text(statement, parameterIndex, start, Int32(text.count), destructor)
    } else {
      let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
      sqlite3_bind_text(statement, parameterIndex, "", 0, transient)
    }
  }
}

/// A value bound to a statement's parameter.
enum SQLValue {
  case integer(Int64)
  /// Text as UTF-8.
  case text(ArraySlice<UInt8>)
  case null

  static func integer(_ value: UInt64) -> SQLValue { .integer(Int64(bitPattern: value)) }
  /// Returns the value to store in a column `schema`: null for version 1, the version of most
  /// machines.
  static func schema(_ value: Int) -> SQLValue { value == 1 ? .null : .integer(Int64(value)) }
  static func text(_ bytes: [UInt8]) -> SQLValue { .text(bytes[...]) }
  static func text(_ string: String) -> SQLValue { .text(Array(string.utf8)) }
}

/// The current row of a statement.
package struct Row {
  fileprivate let statement: OpaquePointer

  func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }
  func isNull(_ column: Int32) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }
  func unsigned(_ column: Int32) -> UInt64 { UInt64(bitPattern: integer(column)) }

  func bytes(_ column: Int32) -> [UInt8] {
    guard let start = sqlite3_column_blob(statement, column) else { return [] }
    let count = Int(sqlite3_column_bytes(statement, column))
    return Array(UnsafeRawBufferPointer(start: start, count: count))
  }

  func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

  /// Reads the schema version of the machine that wrote the row. A null means version 1.
  func schema(_ column: Int32) -> Int { isNull(column) ? 1 : Int(integer(column)) }

  /// Reads a transaction id: the epoch from `column`, and the sequence from the next column.
  func transaction(_ column: Int32) -> TransactionID {
    TransactionID(epoch: unsigned(column), sequence: unsigned(column + 1))
  }
}

/// An error that a SQLite function returned.
struct DatabaseError: Error, Hashable, CustomStringConvertible {
  /// SQLite's extended result code, or `SQLITE_FULL` for an I/O error that a full disk has caused.
  let resultCode: Int32
  let message: String

  fileprivate init(_ handle: OpaquePointer?, resultCode: Int32) {
    let extended = handle.map { sqlite3_extended_errcode($0) } ?? resultCode
    // SQLite reports an exceeded quota, or a lack of shared memory for the write-ahead log, as an
    // I/O error.
    let isFull =
      extended & 0xFF == SQLITE_IOERR
      && handle.map { SystemError.isDiskFull(sqlite3_system_errno($0)) } == true
    self.resultCode = isFull ? SQLITE_FULL : extended
    message =
      handle.map { String(cString: sqlite3_errmsg($0)) }
      ?? String(cString: sqlite3_errstr(resultCode))
  }

  init(resultCode: Int32, message: String) {
    self.resultCode = resultCode
    self.message = message
  }

  /// The kind of error that the result code stands for, such as a full disk or a damaged file.
  var kind: Kind {
    switch resultCode & 0xFF {
    case SQLITE_FULL: .full
    case SQLITE_CORRUPT, SQLITE_NOTADB: .damaged
    case SQLITE_READONLY: .readOnly
    case SQLITE_CANTOPEN: .cannotOpen
    case SQLITE_BUSY, SQLITE_LOCKED: .busy
    default: .other
    }
  }

  enum Kind { case full, damaged, readOnly, cannotOpen, busy, other }

  var description: String { "\(message) (SQLite \(resultCode))" }
}
