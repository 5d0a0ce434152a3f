import Glibc
import PipeSystem

/// The contents of a journal at one moment, for a backup.
///
/// While the node's process is paused, ``take()`` begins to read, and copies the step marker file.
/// This takes less than a millisecond, whatever the size of the journal. The process may then
/// continue: SQLite's write-ahead log keeps the contents of that moment until ``write(to:)`` has
/// copied these contents.
package final class JournalCut {
  package let path: String
  package let node: String
  private let database: Database
  private let fileIdentity: FileIdentity?
  /// The bytes of the step marker file; empty if there is no such file.
  private var marker: [UInt8] = []

  /// Opens the journal, which must exist. Call this before the process is paused.
  package init(_ path: String, node: String) throws(JournalError) {
    self.path = path
    self.node = node
    do {
      guard try JournalCheck.exists(path, node: node) else {
        throw JournalError.missing(path: path, node: node)
      }
      fileIdentity = FileIdentity(path)
      database = try Database(path, .readOnly)
      database.keepLogOnClose()
      try JournalCheck.checkVersion(database, path, node: node)
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Whether the path still refers to the open journal. `false` after a reset.
  package var isCurrent: Bool { FileIdentity(path) == fileIdentity }

  /// The size of the journal's files. Unit: bytes.
  package var byteCount: Int64 {
    ["", "-wal", ".step"].reduce(0) { $0 + FileSystem.byteCount(of: path + $1) }
  }

  /// Begins the cut: its contents are the contents of the journal at this moment. Precondition: the
  /// node's process is paused or has ended.
  package func take() throws(JournalError) {
    do {
      try database.execute("BEGIN")
      // All reads of a transaction return the contents at the time of the first read.
      _ = try RecordWriter.lastWrittenNumber(in: database)
      marker = try Self.bytes(of: path + ".step")
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Ends the cut, so that SQLite no longer keeps the contents of that moment.
  package func release() {
    marker = []
    try? database.execute("ROLLBACK")
  }

  /// Writes a journal with the contents of the cut, and ends the cut. The journal is a single file,
  /// as if a process had started with these contents and had stopped gracefully without a step.
  /// - Parameter target: The path of the new file. Files from an earlier attempt are replaced.
  package func write(to target: String) throws(JournalError) {
    defer { release() }
    do {
      Self.remove(target)
      try database.copy(to: target)
      if !marker.isEmpty { try Self.write(marker, to: target + ".step") }
      try finishCopy(target)
      for suffix in ["-wal", "-shm", ".step"] { unlink(target + suffix) }
    } catch {
      throw JournalError(error, path: path, node: node)
    }
  }

  /// Removes the files that ``write(to:)`` creates.
  package static func remove(_ target: String) {
    for suffix in ["", "-wal", "-shm", "-journal", ".step"] { unlink(target + suffix) }
  }

  /// Writes the records of the log, and a prepared step that is only in the step marker file, into
  /// the database.
  private func finishCopy(_ target: String) throws {
    func value(_ key: String) throws -> String {
      try JournalCheck.metaValue(key, in: database) ?? ""
    }
    let identity = Journal.Identity(
      topology: try value("topology"), node: try value("node"), machine: try value("machine"))
    let journal = try Journal(target, identity: identity, durability: .process)
    try journal.finish()
    try journal.moveLogIntoDatabase()
  }

  private static func bytes(of path: String) throws -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      guard errno == ENOENT else { throw SystemError("open", on: path, code: errno) }
      return []
    }
    defer { close(descriptor) }
    return try FileSystem.read(descriptor)
  }

  private static func write(_ bytes: [UInt8], to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    try FileSystem.write(bytes, to: descriptor, path: path)
  }
}

extension Journal {
  /// Copies SQLite's write-ahead log into the database, and empties the log.
  fileprivate func moveLogIntoDatabase() throws {
    try updatedDatabase().execute("PRAGMA wal_checkpoint(TRUNCATE)")
  }
}
