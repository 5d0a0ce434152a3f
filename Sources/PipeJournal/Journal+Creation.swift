import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The creation of a journal, and the checks of an existing journal.
extension Journal {
  /// Creates the journal under a temporary name, and then renames the file. So a journal with the
  /// final name is always complete.
  /// - Parameter isHeld: Whether an incarnation locks the journal against all other processes.
  static func make(
    _ path: String, _ identity: Identity, _ durability: Durability, isHeld: Bool
  ) throws {
    let followsReset = FileSystem.exists(path + JournalFiles.resetSuffix)
    let temporary = path + ".new"
    for suffix in ["", "-wal", "-shm", "-journal"] { unlink(temporary + suffix) }
    do {
      let database = try Database(temporary, .create)
      // A crash could lose nothing, because the new file is still empty. So these settings make the
      // start faster: no waits for the disk (except with the durability `power`), no separate log
      // files, and one lock for all transactions.
      try database.execute(
        """
        PRAGMA locking_mode = EXCLUSIVE;
        PRAGMA synchronous = \(durability == .power ? "FULL" : "OFF");
        PRAGMA journal_mode = MEMORY;
        PRAGMA page_size = 4096;
        PRAGMA auto_vacuum = INCREMENTAL;
        BEGIN;
        PRAGMA application_id = \(JournalSchema.applicationID);
        PRAGMA user_version = \(JournalSchema.version);
        \(JournalSchema.tableDefinitions)
        """)
      let insert = try database.prepare("INSERT INTO meta VALUES (?, ?)")
      let id = UInt64.random(in: 1 << 32...UInt64(Int64.max))
      for (key, value) in [
        ("id", String(id)), ("topology", identity.topology), ("node", identity.node),
        ("machine", identity.machine), ("created", Timestamp.now.description),
      ] {
        try insert.run(.text(key), .text(value))
      }
      if followsReset { try insert.run(.text(JournalSnapshot.resetKey), .text("1")) }
      try database.execute(
        """
        COMMIT;
        \(isHeld ? "" : "PRAGMA locking_mode = NORMAL;")
        PRAGMA journal_mode = WAL
        """)
    }
    chmod(temporary, 0o600)
    guard rename(temporary, path) == 0 else {
      throw SystemError("rename", on: path, code: errno)
    }
    guard durability == .power else { return }
    let directory = open(FileSystem.parentDirectory(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { close(directory) }
    guard fsync(directory) == 0 else { throw SystemError("fsync", on: path, code: errno) }
  }

  /// Records that `incarnation` holds the journal.
  /// - Throws: `superseded` if a later incarnation already holds the journal.
  static func recordHolder(_ database: Database, _ path: String, by incarnation: UInt64) throws {
    try database.execute("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")
    let former = try JournalCheck.metaValue(JournalSchema.holderKey, in: database).flatMap {
      UInt64($0)
    }
    if let former, former > incarnation {
      throw JournalError.superseded(path: path, incarnation: incarnation, by: former)
    }
    try database.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)").run(
      .text(JournalSchema.holderKey), .text(String(incarnation)))
    try database.execute("COMMIT")
  }

  static func checkIdentity(
    _ database: Database, _ path: String, _ identity: Identity
  ) throws {
    try JournalCheck.checkIntegrity(database, path, node: identity.node)
    for (attribute, expected) in [
      ("topology", identity.topology), ("node", identity.node), ("machine", identity.machine),
    ] {
      let found = try JournalCheck.metaValue(attribute, in: database) ?? ""
      guard found == expected else {
        throw JournalError.mismatch(
          path: path, node: identity.node, attribute: attribute, found: found, expected: expected)
      }
    }
    if let reason = try JournalCheck.metaValue(JournalSnapshot.refusedKey, in: database) {
      throw JournalError.damaged(path: path, node: identity.node, reason: reason)
    }
  }

  static func oldestRecord(_ database: Database) throws -> Int64 {
    try JournalCheck.selectNumber("SELECT coalesce(min(id), 1) FROM record", in: database)
  }
}

// If a machine's state is a struct, the journal also contains the names of the struct's fields.
// Programs that read the journal of a stopped node need these names: in JSON, a struct with one
// field looks like an enum case.

extension JournalSnapshot {
  /// The key in the table `meta` for the names of the state's fields.
  static let fieldsKey = "fields"
}

extension Journal {
  /// Records the field names of the state; `nil` for a state that is an enum.
  package func store(stateFields: [String]?) throws(JournalError) {
    do {
      let key = JournalSnapshot.fieldsKey
      guard try JournalReader.stateFields(in: database) != stateFields else { return }
      if let stateFields {
        let names = JSONValue.texts(stateFields).text
        try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(.text(key), .text(names))
      } else {
        try database.prepare("DELETE FROM meta WHERE key = ?").run(.text(key))
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}

extension JournalReader {
  /// Returns the field names of the state; `nil` if the state is not a struct.
  static func stateFields(in database: Database) throws -> [String]? {
    guard let text = try JournalCheck.metaValue(JournalSnapshot.fieldsKey, in: database),
      case .array(let names)? = try? JSONValue(parsing: Array(text.utf8))
    else { return nil }
    return names.compactMap(\.string)
  }
}
