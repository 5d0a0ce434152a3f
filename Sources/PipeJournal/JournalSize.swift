import PipeMachines
import PipeSystem
import PipeWire

/// The size of a journal: its files, and its rows by kind.
package struct JournalSize: Hashable, Sendable {
  /// The rows of a journal by kind, without the records that are only in the record log.
  package struct Rows: Hashable, Sendable {
    package var records: Int64 = 0
    package var deadLetters: Int64 = 0
    /// The events that wait for their acknowledgement.
    package var outboxEvents: Int64 = 0
    package var postponedEvents: Int64 = 0
    package var effects: Int64 = 0
    package var instances: Int64 = 0
    package var requests: Int64 = 0
    /// The commits of a composite.
    package var commits: Int64 = 0
  }

  package let node: String
  package let path: String
  package let space: JournalSpace
  /// The rows; `nil` if the database cannot be read.
  package private(set) var rows: Rows?
  /// The size of the database's unused pages, which the node will use for new data. Unit: bytes.
  package private(set) var unused: Int64 = 0
  /// The reason why the database cannot be read.
  package private(set) var failure: String?

  /// Measures the journal at `path`. The node may be running.
  package init(of node: String, journal path: String) {
    self.node = node
    self.path = path
    space = JournalSpace(ofJournal: path)
    do {
      guard try JournalCheck.exists(path, node: node) else {
        throw JournalError.missing(path: path, node: node)
      }
      let database = try Database(path, .readOnly)
      database.keepLogOnClose()
      try JournalCheck.checkVersion(database, path, node: node)
      // Reads all numbers as of the same moment.
      try database.execute("BEGIN")
      let version = try JournalCheck.version(of: database)
      func number(_ sql: String) throws -> Int64 {
        try JournalCheck.selectNumber(sql, in: database)
      }
      func count(_ table: String) throws -> Int64 { try number("SELECT count(*) FROM \(table)") }
      var rows = Rows()
      rows.records = try count("record")
      rows.deadLetters = try count(version < 3 ? "letter" : "dead_letter")
      rows.outboxEvents = try number("SELECT coalesce(sum(count), 0) FROM outbox")
      rows.postponedEvents = try count("postponed")
      rows.effects = try number("SELECT count(*) FROM effect WHERE feedback >= 0")
      rows.requests = try count("request")
      rows.commits = try count("committed")
      if JournalSchema.hasInstances(version) {
        rows.instances = try count("instance")
        rows.effects += try number("SELECT count(*) FROM instance_effect WHERE feedback >= 0")
      }
      unused = try number("PRAGMA freelist_count") * number("PRAGMA page_size")
      self.rows = rows
    } catch {
      failure = "\(JournalError(error, path: path, node: node))"
    }
  }
}
