import Glibc
import PipeSystem

/// Checks that a file is a usable journal.
enum JournalCheck {
  /// Whether a journal exists at `path`. Checks the files without SQLite, because SQLite would
  /// treat an empty file as a new database and discard the log beside the file.
  /// - Throws: ``JournalError`` if the file is empty or not a regular file, or if only its '-wal'
  ///   file exists.
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
    // Without this check, SQLite would apply the old '-wal' file to a new journal.
    if stat(path + "-wal", &status) == 0, status.st_size > 0 {
      throw JournalError.damaged(
        path: path, node: node, reason: "the file is missing, but its '-wal' file exists")
    }
    return false
  }

  /// Checks that the file is an intact journal of a readable version.
  /// - Throws: ``JournalError`` if the file is not a journal, has an unreadable version, or is
  ///   damaged.
  static func checkIntegrity(_ database: Database, _ path: String, node: String) throws {
    try checkVersion(database, path, node: node)
    let checkResult = try database.select("PRAGMA quick_check(1)") { $0.text(0) }.last
    if let checkResult, checkResult != "ok" {
      let line = checkResult.split(separator: "\n").joined(separator: " ")
      throw JournalError.damaged(path: path, node: node, reason: line)
    }
  }

  /// Checks that the file is a journal of a readable version.
  /// - Throws: ``JournalError`` if the file is not a journal, or has an unreadable version.
  static func checkVersion(_ database: Database, _ path: String, node: String) throws {
    guard try selectNumber("PRAGMA application_id", in: database) == JournalSchema.applicationID
    else {
      throw JournalError.damaged(path: path, node: node, reason: "the file is not a journal")
    }
    let version = try version(of: database)
    guard JournalSchema.readableVersions.contains(version) else {
      throw JournalError.otherVersion(path: path, node: node, found: version)
    }
  }

  /// Returns the version of the tables.
  static func version(of database: Database) throws -> Int64 {
    try selectNumber("PRAGMA user_version", in: database)
  }

  /// Returns the random id of the journal.
  static func streamID(of database: Database, _ path: String, node: String) throws -> UInt64 {
    guard let stream = try metaValue("id", in: database).flatMap({ UInt64($0) }) else {
      throw JournalError.damaged(path: path, node: node, reason: "the journal has no id")
    }
    return stream
  }

  /// Returns the highest request number of any forgotten client; 0 if no client was forgotten.
  static func highestForgottenRequestNumber(in database: Database) throws -> UInt64 {
    try metaValue(JournalSnapshot.forgottenRequestsKey, in: database).flatMap { UInt64($0) } ?? 0
  }

  static func selectNumber(_ sql: String, in database: Database) throws -> Int64 {
    try database.select(sql) { $0.integer(0) }.first ?? 0
  }

  static func metaValue(_ key: String, in database: Database) throws -> String? {
    try database.select("SELECT value FROM meta WHERE key = ?", .text(key)) { $0.text(0) }.first
  }
}
