/// The tables of a journal. `docs/JOURNAL.md` describes them.
enum JournalSchema {
  /// The version of the tables, stored in SQLite's `user_version`.
  ///
  /// - Version 1 had no record log.
  /// - Versions 1 and 2 had a table `letter` instead of `dead_letter`, and recorded each state
  ///   completely.
  /// - Versions 1 to 3 had no table `prepared_instance`, and no column `schema`.
  static let version: Int64 = 4
  /// The versions that this program reads. When a node starts, it upgrades its journal to the
  /// newest version.
  static let readableVersions: ClosedRange<Int64> = 1...version

  /// Upgrades the tables of a journal of version `former`. Must be called before the records of the
  /// log are written, because the log's operations use the current tables.
  static func upgradeTables(_ database: Database, from former: Int64) throws(DatabaseError) {
    guard former < version else { return }
    if former < 3 {
      try database.execute(
        """
        ALTER TABLE letter RENAME TO dead_letter;
        ALTER TABLE record RENAME TO former_record;
        \(recordTable)
        INSERT INTO record
          SELECT id, version, incarnation, time, cause, steps, NULL, state, NULL FROM former_record;
        DROP TABLE former_record;
        """)
      try database.execute(instanceTables)
    }
    try database.execute(preparedInstanceTable)
    for table in versionedTables where former == 3 || !newTables.contains(table) {
      try database.execute("ALTER TABLE \(table) ADD COLUMN schema INTEGER")
    }
    try database.execute("PRAGMA user_version = \(version)")
  }

  /// Upgrades contents that were written by version `former`, in the tables or the log.
  static func upgradeContents(_ database: Database, from former: Int64) throws(DatabaseError) {
    guard former < 3 else { return }
    try database.execute(
      """
      UPDATE OR REPLACE meta SET key = 'dead_letters_lost' WHERE key = 'letters_lost';
      UPDATE record SET cause = 'deadLetter ' || substr(cause, 8) WHERE cause GLOB 'letter [0-9]*';
      """)
  }

  /// Adds temporary views that show the tables of version `former` with the current names and
  /// columns. Does not change the file.
  static func addViews(to database: Database, of former: Int64) throws(DatabaseError) {
    guard former < version else { return }
    for table in versionedTables where former == 3 || !newTables.contains(table) {
      let formerTable = former < 3 && table == "dead_letter" ? "letter" : table
      try database.execute(
        "CREATE TEMP VIEW \(table) AS SELECT *, NULL AS schema FROM main.\(formerTable)")
    }
    guard former < 3 else { return }
    try database.execute(
      """
      CREATE TEMP VIEW meta AS
        SELECT iif(key = 'letters_lost', 'dead_letters_lost', key) AS key, value FROM main.meta;
      CREATE TEMP VIEW record AS
        SELECT id, version, incarnation, time, cause, steps, NULL AS base, state, NULL AS schema
        FROM main.record;
      """)
  }

  /// The tables whose column `schema` contains the schema version of the machine that wrote the
  /// row.
  private static let versionedTables = [
    "record", "instance", "instance_effect", "outbox", "effect", "postponed", "dead_letter",
    "prepared",
  ]
  /// The tables that the upgrade to version 3 creates. They have the column `schema` from the
  /// start.
  private static let newTables: Set = ["record", "instance", "instance_effect"]

  /// Whether the tables of a version include instances.
  static func hasInstances(_ version: Int64) -> Bool { version >= 3 }

  /// Whether the tables of a version include the prepared steps of instances.
  static func hasPreparedInstances(_ version: Int64) -> Bool { version >= 4 }

  /// The table of the records, and the view `record_state`, which shows each state completely.
  private static let recordTable = """
    CREATE TABLE record (
      id INTEGER PRIMARY KEY, version INTEGER NOT NULL, incarnation INTEGER NOT NULL,
      time INTEGER NOT NULL, cause TEXT NOT NULL, steps INTEGER NOT NULL, base INTEGER, state TEXT NOT NULL,
      schema INTEGER
    );
    CREATE INDEX record_base ON record (base) WHERE base IS NOT NULL;
    CREATE VIEW record_state AS
      SELECT id, version, incarnation, time, cause, steps,
        iif(base IS NULL, state, (
          SELECT group_concat(
            iif(part.type = 'array',
              CAST(substr(CAST(whole.state AS BLOB), (part.value ->> 0) + 1, part.value ->> 1) AS TEXT),
              part.value), '')
          FROM record AS whole, json_each(record.state) AS part
          WHERE whole.id = record.base AND part.key > 0)) AS state
      FROM record;
    """

  /// The value of SQLite's `application_id` that identifies a file as a journal.
  static let applicationID: Int64 = 0x7069_7065

  /// The key of the table `meta` for the incarnation that holds a journal on shared storage.
  static let holderKey = "incarnation"

  /// The tables of instances. Version 3 introduced these tables.
  static let instanceTables = """
    CREATE TABLE IF NOT EXISTS instance (
      id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
      time INTEGER NOT NULL, cause TEXT NOT NULL, label TEXT NOT NULL, state TEXT NOT NULL,
      ended INTEGER, schema INTEGER
    );
    CREATE INDEX IF NOT EXISTS instance_ended ON instance (ended) WHERE ended IS NOT NULL;
    CREATE TABLE IF NOT EXISTS instance_effect (
      instance INTEGER NOT NULL, version INTEGER NOT NULL, feedback INTEGER NOT NULL,
      state TEXT NOT NULL, time INTEGER NOT NULL, boot TEXT NOT NULL, clock INTEGER NOT NULL,
      stream INTEGER, schema INTEGER,
      PRIMARY KEY (instance, version, feedback)
    ) WITHOUT ROWID;
    """

  /// The table of the prepared steps of instances.
  private static let preparedInstanceTable = """
    CREATE TABLE IF NOT EXISTS prepared_instance (
      key TEXT PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
      version INTEGER NOT NULL, state TEXT NOT NULL, event TEXT NOT NULL, schema INTEGER
    ) WITHOUT ROWID;
    """

  static let tableDefinitions = """
    CREATE TABLE meta (
      key TEXT PRIMARY KEY, value TEXT NOT NULL
    ) WITHOUT ROWID;
    \(recordTable)
    CREATE TABLE consumed (
      pipe TEXT PRIMARY KEY, stream INTEGER NOT NULL, applied INTEGER NOT NULL,
      closed INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE sent (
      pipe TEXT PRIMARY KEY, queued INTEGER NOT NULL, acknowledged INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE outbox (
      pipe TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, events TEXT NOT NULL,
      schema INTEGER,
      PRIMARY KEY (pipe, last)
    ) WITHOUT ROWID;
    CREATE TABLE effect (
      version INTEGER NOT NULL, feedback INTEGER NOT NULL, state TEXT NOT NULL,
      time INTEGER NOT NULL, boot TEXT NOT NULL, clock INTEGER NOT NULL, schema INTEGER,
      PRIMARY KEY (version, feedback)
    ) WITHOUT ROWID;
    CREATE TABLE postponed (
      id INTEGER PRIMARY KEY, pipe TEXT NOT NULL, sequence INTEGER NOT NULL, event TEXT NOT NULL,
      schema INTEGER
    );
    CREATE TABLE dead_letter (
      id INTEGER PRIMARY KEY AUTOINCREMENT, pipe TEXT NOT NULL, sequence INTEGER NOT NULL,
      event TEXT NOT NULL, reason TEXT NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL,
      time INTEGER NOT NULL, schema INTEGER
    );
    CREATE TABLE request (
      client INTEGER NOT NULL, id INTEGER NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL,
      PRIMARY KEY (client, id)
    ) WITHOUT ROWID;
    CREATE TABLE attempt (
      source TEXT NOT NULL, sequence INTEGER NOT NULL, count INTEGER NOT NULL
    );
    CREATE TABLE prepared (
      id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
      version INTEGER NOT NULL, state TEXT NOT NULL, event TEXT NOT NULL, schema INTEGER
    );
    CREATE TABLE applied (
      id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, sequence INTEGER NOT NULL
    );
    CREATE TABLE coordinator (
      id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL,
      forgotten_epoch INTEGER NOT NULL, forgotten_sequence INTEGER NOT NULL
    );
    CREATE TABLE committed (
      epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, caller TEXT NOT NULL,
      number INTEGER NOT NULL, moves TEXT NOT NULL, acknowledged INTEGER NOT NULL,
      PRIMARY KEY (epoch, sequence)
    ) WITHOUT ROWID;
    \(instanceTables)
    \(preparedInstanceTable)
    CREATE VIEW outbox_event AS
      SELECT pipe, last - count + 1 + part.key AS sequence,
        iif(part.type IN ('object', 'array'), part.value, json_quote(part.value)) AS event
      FROM outbox, json_each('[' || replace(events, char(10), ',') || ']') AS part;
    """
}

/// An operation in a record: an SQL statement that takes values. The raw value is stored in a
/// ``RecordLog`` and is never reused. An earlier version of this library may have written an
/// operation without its last value; the missing value is NULL.
enum JournalOperation: UInt8, CaseIterable {
  case moved = 1
  case deleteRecords
  case incrementalVacuum
  case consumed
  case queued
  case sent
  case trim
  case effectStarted
  case effectEnded
  case postponed
  case postponedRemoved
  case deadLetter
  case deadLetterRemoved
  case meta
  case metaRemoved
  case answered
  case answerForgotten
  case prepared
  case aborted
  case applied
  case coordinatorStarted
  case committed
  case acknowledged
  case forgotten
  case forgottenThrough
  case requestsAcknowledged
  case clientForgotten
  case instanceChanged
  case instanceRemoved
  case instanceEffectStarted
  case instanceEffectEnded
  case movedFrom
  case instancePrepared
  case instanceDecided

  var statement: String {
    switch self {
    case .moved: "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?)"
    case .movedFrom: "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    case .deleteRecords: "DELETE FROM record WHERE id < ?"
    case .incrementalVacuum: "PRAGMA incremental_vacuum(1024)"
    case .consumed: "REPLACE INTO consumed VALUES (?, ?, ?, ?)"
    case .queued: "INSERT INTO outbox VALUES (?, ?, ?, ?, ?)"
    case .sent: "REPLACE INTO sent VALUES (?, ?, ?)"
    case .trim: "DELETE FROM outbox WHERE pipe = ? AND last <= ?"
    case .effectStarted: "REPLACE INTO effect VALUES (?, ?, ?, ?, ?, ?, ?)"
    case .effectEnded: "DELETE FROM effect WHERE version = ? AND feedback = ?"
    case .postponed: "REPLACE INTO postponed VALUES (?, ?, ?, ?, ?)"
    case .postponedRemoved: "DELETE FROM postponed WHERE id = ?"
    case .deadLetter: "REPLACE INTO dead_letter VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    case .deadLetterRemoved: "DELETE FROM dead_letter WHERE id = ?"
    case .meta: "REPLACE INTO meta VALUES (?, ?)"
    case .metaRemoved: "DELETE FROM meta WHERE key = ?"
    case .answered: "REPLACE INTO request VALUES (?, ?, ?, ?)"
    case .answerForgotten: "DELETE FROM request WHERE client = ? AND id = ?"
    case .requestsAcknowledged: "DELETE FROM request WHERE client = ? AND id < ?"
    case .clientForgotten: "DELETE FROM request WHERE client = ?"
    case .instanceChanged:
      """
      INSERT INTO instance VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
        version = excluded.version, time = excluded.time, cause = excluded.cause,
        label = excluded.label, state = excluded.state, ended = excluded.ended,
        schema = excluded.schema
      """
    case .instanceRemoved: "DELETE FROM instance WHERE id = ? AND key = ?"
    case .instanceEffectStarted:
      """
      INSERT INTO instance_effect VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?) ON CONFLICT DO UPDATE SET
        state = excluded.state, time = excluded.time, boot = excluded.boot,
        clock = excluded.clock, schema = excluded.schema
      """
    case .instanceEffectEnded:
      "DELETE FROM instance_effect WHERE instance = ? AND version = ? AND feedback = ?"
    case .prepared: "REPLACE INTO prepared VALUES (1, ?, ?, ?, ?, ?, ?)"
    case .instancePrepared: "REPLACE INTO prepared_instance VALUES (?, ?, ?, ?, ?, ?, ?)"
    case .instanceDecided:
      "DELETE FROM prepared_instance WHERE key = ? AND epoch = ? AND sequence = ?"
    case .aborted: "DELETE FROM prepared WHERE epoch = ? AND sequence = ?"
    case .applied: "REPLACE INTO applied VALUES (1, ?, ?)"
    case .coordinatorStarted:
      "INSERT INTO coordinator VALUES (1, ?1, 0, 0) ON CONFLICT (id) DO UPDATE SET epoch = ?1"
    case .committed: "REPLACE INTO committed VALUES (?, ?, ?, ?, ?, 0)"
    case .acknowledged: "UPDATE committed SET acknowledged = 1 WHERE epoch = ? AND sequence = ?"
    case .forgotten: "DELETE FROM committed WHERE epoch = ? AND sequence = ?"
    case .forgottenThrough:
      "UPDATE coordinator SET forgotten_epoch = ?1, forgotten_sequence = ?2 "
        + "WHERE (forgotten_epoch, forgotten_sequence) < (?1, ?2)"
    }
  }
}
