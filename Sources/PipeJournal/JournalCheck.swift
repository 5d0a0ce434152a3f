import Glibc
import PipeSystem

/// What must hold of a file before it is read as a journal.
enum JournalCheck {
  /// Whether there is a journal, told from the files alone: SQLite itself would take an empty file for
  /// a new database and throw away the log beside it.
  static func exists(_ path: String, node: String) throws -> Bool {
    var status = stat()
    if stat(path, &status) == 0 {
      guard status.st_mode & S_IFMT == S_IFREG else {
        throw JournalError.inaccessible(path: path, node: node, reason: "it is not a file")
      }
      guard status.st_size > 0 else {
        throw JournalError.damaged(path: path, node: node, reason: "it is empty")
      }
      return true
    }
    guard errno == ENOENT else {
      throw JournalError.inaccessible(
        path: path, node: node, reason: SystemError.text(of: errno))
    }
    // Its log would be read into a new journal.
    if stat(path + "-wal", &status) == 0, status.st_size > 0 {
      throw JournalError.damaged(
        path: path, node: node, reason: "it is gone, and its file '-wal' is still there")
    }
    return false
  }

  /// Throws where the file is no journal, of another version, or does not hold together.
  static func whole(_ database: Database, _ path: String, node: String) throws {
    guard try number("PRAGMA application_id", in: database) == JournalSchema.application else {
      throw JournalError.damaged(path: path, node: node, reason: "it is no journal")
    }
    let version = try version(of: database)
    guard JournalSchema.readable.contains(version) else {
      throw JournalError.otherVersion(path: path, node: node, found: version)
    }
    let problem = try database.select("PRAGMA quick_check(1)") { $0.text(0) }.last
    if let problem, problem != "ok" {
      let line = problem.split(separator: "\n").joined(separator: " ")
      throw JournalError.damaged(path: path, node: node, reason: line)
    }
  }

  /// The version of its tables.
  static func version(of database: Database) throws -> Int64 {
    try number("PRAGMA user_version", in: database)
  }

  /// The journal's own random number.
  static func stream(of database: Database, _ path: String, node: String) throws -> UInt64 {
    guard let stream = try meta("id", in: database).flatMap({ UInt64($0) }) else {
      throw JournalError.damaged(path: path, node: node, reason: "it has no id")
    }
    return stream
  }

  /// The highest number of a request of a client that was forgotten.
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
