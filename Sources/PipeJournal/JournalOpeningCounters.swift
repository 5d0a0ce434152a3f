import PipeSupport
import PipeWire

/// Counters of how many times a journal was opened and closed. They show whether the database
/// contains all records of the last process.
///
/// A node that stops gracefully writes all records into the database. If a node ends in any other
/// way, its last records and its prepared step may be only in the step marker file.
struct JournalOpeningCounters {
  /// The number of processes that have opened the journal with the durability `process`.
  private(set) var count: UInt64 = 0
  private var closedCount: UInt64 = 0
  private var bootID = ""

  // Keys of the table `meta`.
  private static let openedKey = "opened"
  private static let closedKey = "closed"

  init(_ database: Database) throws {
    let opened = try JournalCheck.metaValue(Self.openedKey, in: database)?.split(separator: " ")
    // A journal of an earlier version has neither key. Such a journal counts as closed.
    guard let opened, opened.count == 2 else { return }
    count = UInt64(opened[0]) ?? 0
    bootID = String(opened[1])
    closedCount =
      try JournalCheck.metaValue(Self.closedKey, in: database).flatMap { UInt64($0) } ?? 0
  }

  /// Whether the process that last opened the journal did not stop gracefully.
  var isOpen: Bool { count > closedCount }

  /// Whether the journal has been opened since the system was last started.
  var isSameBoot: Bool { bootID == BootClock.bootID }

  /// Counts an opening by this process. Has no effect with ``Durability/power``, because the
  /// database then immediately contains each record.
  mutating func begin(_ durability: Durability) {
    guard durability == .process else { return }
    count += 1
    bootID = BootClock.bootID
  }

  func write(to database: Database) throws {
    guard isOpen else { return }
    try Self.replace(Self.openedKey, "\(count) \(bootID)", in: database)
  }

  /// Records that the database contains all records, so that the journal counts as closed.
  mutating func close(in database: Database) throws {
    guard isOpen else { return }
    closedCount = count
    try Self.replace(Self.closedKey, String(closedCount), in: database)
  }

  private static func replace(_ key: String, _ value: String, in database: Database) throws {
    try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(.text(key), .text(value))
  }
}
