import PipeSupport
import PipeSystem
import PipeWire

/// Counts the openings of a journal, and shows whether its database has everything that the node
/// had recorded when it ended.
///
/// A node that stops gracefully writes everything into the database. After any other end, the last
/// records and the prepared step may be only in the file of the ``StepMarkerFile``.
struct JournalOpening {
  /// The number of processes that have kept records outside the database.
  private(set) var count: UInt64 = 0
  private var closed: UInt64 = 0
  private var boot = ""

  // Keys of the table `meta`.
  private static let openedKey = "opened"
  private static let closedKey = "closed"

  init(_ database: Database) throws {
    let opened = try JournalCheck.meta(Self.openedKey, in: database)?.split(separator: " ")
    // A journal of an earlier version has neither key, and counts as closed.
    guard let opened, opened.count == 2 else { return }
    count = UInt64(opened[0]) ?? 0
    boot = String(opened[1])
    closed = try JournalCheck.meta(Self.closedKey, in: database).flatMap { UInt64($0) } ?? 0
  }

  /// Whether the node has not stopped gracefully since the last opening.
  var isOpen: Bool { count > closed }

  /// Whether the last opening was after the start of the system.
  var isSameBoot: Bool { boot == BootClock.boot }

  /// Notes that another process has opened the journal. With ``Durability/power``, the database has
  /// each record at once.
  mutating func begin(_ durability: Durability) {
    guard durability == .process else { return }
    count += 1
    boot = BootClock.boot
  }

  func write(to database: Database) throws {
    guard isOpen else { return }
    try Self.replace(Self.openedKey, "\(count) \(boot)", in: database)
  }

  /// Records that the database has everything.
  mutating func close(in database: Database) throws {
    guard isOpen else { return }
    closed = count
    try Self.replace(Self.closedKey, String(closed), in: database)
  }

  private static func replace(_ key: String, _ value: String, in database: Database) throws {
    try database.prepare("REPLACE INTO meta VALUES (?, ?)").run(.text(key), .text(value))
  }
}

extension StepMarkerFile {
  /// Checks this file against the journal. Throws if the journal lacks a record that was made,
  /// or if this file is not the last one of the journal.
  /// - Parameters:
  ///   - last: The number of the last record in the database and in the log.
  ///   - written: The number of the last record in the database.
  /// - Returns: Whether records may be lost with the former file, because the system ended.
  func check(
    _ stream: UInt64, last: UInt64, written: UInt64, _ opening: JournalOpening,
    _ durability: Durability, path: String, node: String
  ) throws(JournalError) -> Bool {
    func damageError(_ reason: String) -> JournalError {
      .damaged(path: path, node: node, reason: reason)
    }
    guard let former, former.stream == stream || former.record > 0 else {
      guard opening.isOpen else { return false }
      guard opening.isSameBoot else { return true }
      throw damageError(
        "the '.step' file was \(existed ? "overwritten" : "removed"), and the node had not stopped "
          + "gracefully: the last records were in this file")
    }
    guard former.stream == stream else {
      throw damageError("the '.step' file belongs to another journal")
    }
    // After a power failure, records that waited in memory may be lost.
    guard former.isSameBoot || durability == .power else { return false }
    guard last >= former.record else {
      throw damageError(
        "the journal ends at record \(last), but record \(former.record) was written: the '-wal' "
          + "file was removed, or a file of the journal is an older copy")
    }
    guard former.isSameBoot else { return false }
    // The file notes a record before any part of the record reaches the database.
    guard written <= max(former.record, former.written), former.opening >= opening.count else {
      throw damageError(
        "the '.step' file is an older copy: it ends at record \(former.record) of opening "
          + "\(former.opening), the database at record \(written) of opening \(opening.count)")
    }
    guard former.opening <= opening.count + 1 else {
      throw damageError(
        "the journal is an older copy: it was opened \(opening.count) times, its '.step' file "
          + "\(former.opening) times")
    }
    guard hasPrepared else {
      throw damageError(
        "the '.step' file lacks the synchronized event that the node was last prepared for")
    }
    return false
  }
}
