import PipeMachines
import PipeWire

/// Decides how a journal records each state: completely, or as the difference from a base. The base
/// is the last state that was recorded completely.
///
/// A difference never refers to another difference, so a reader needs at most two records for a
/// state. A base and its differences form a group, and are deleted together.
struct RecordedStates {
  /// A recorded state.
  struct Entry: Equatable {
    /// The number of the record with the difference's base; `nil` for a complete state.
    var baseRecord: Int64?
    /// The JSON of the complete state, or the difference.
    var text: [UInt8]
  }

  /// A base of at least `minimumByteCount`, and the differences from this base.
  private struct Group {
    let baseRecord: Int64
    var lastRecord: Int64
    var byteCount: Int
  }

  /// The current base and the number of its record; `nil` if the next state must be recorded
  /// completely.
  private var base: (record: Int64, state: [UInt8])?
  /// The groups, sorted by record.
  private var groups: [Group] = []
  /// The size of all groups. Unit: bytes.
  private var byteCount = 0
  /// The number of consecutive attempts in which the difference was too large.
  private var failedDifferenceCount = 0
  /// The number of states that must be recorded completely before the next attempt to compute a
  /// difference.
  private var undifferencedStateCount = 0

  /// The minimum size of a state that may be recorded as a difference. Unit: bytes.
  static let minimumByteCount = 4 << 10
  /// The maximum number of records in a group. Unit: records.
  private static let groupLimit: Int64 = 256
  /// The minimum number of records that the journal keeps, even if their states are large or old.
  private static let minimumRecordCount = Int64(JournalRetention.minimumRecordCount)
  /// The maximum number of records to delete at a time, so that the node continues soon. More
  /// records than this are due only after the limits were lowered.
  static let deletionLimit: Int64 = 1_000
  /// The number of records after which the next deletion follows, while too many records are due.
  private static let deletionInterval: Int64 = 128

  /// The number of records that the journal keeps for readers.
  private let recordLimit: Int64
  /// The maximum total size of the groups that the journal keeps. Unit: bytes.
  private let byteLimit: Int

  init(keeping retention: JournalRetention = JournalRetention()) {
    recordLimit = Int64(retention.records)
    byteLimit = retention.recordByteLimit
  }

  // MARK: Recording states

  /// Decides how to record a state, and returns what to write.
  /// - Parameter record: The number of the record that will contain the state.
  mutating func entry(for state: [UInt8], record: Int64) -> Entry {
    guard state.count >= Self.minimumByteCount else {
      base = nil
      return Entry(baseRecord: nil, text: state)
    }
    if let difference = difference(to: state, record: record) { return difference }
    base = (record, state)
    groups.append(Group(baseRecord: record, lastRecord: record, byteCount: state.count))
    byteCount += state.count
    return Entry(baseRecord: nil, text: state)
  }

  private mutating func difference(to state: [UInt8], record: Int64) -> Entry? {
    guard let base, let group = groups.last, group.baseRecord == base.record,
      record - base.record < Self.groupLimit
    else { return nil }
    // Keeps the total size of the differences in a group below the size of their base.
    let limit = min(state.count / 2, 2 * base.state.count - group.byteCount)
    guard limit > 0 else { return nil }
    guard undifferencedStateCount == 0 else {
      undifferencedStateCount -= 1
      return nil
    }
    guard let text = StateDifference.make(from: base.state, to: state, limit: limit) else {
      // Some states change completely with each step. So after each consecutive failure to compute
      // a small difference, the number of states before the next attempt doubles.
      undifferencedStateCount = min(1 << failedDifferenceCount, 64) - 1
      failedDifferenceCount = min(failedDifferenceCount + 1, 6)
      return nil
    }
    failedDifferenceCount = 0
    groups[groups.count - 1].lastRecord = record
    groups[groups.count - 1].byteCount += text.count
    byteCount += text.count
    return Entry(baseRecord: base.record, text: text)
  }

  /// Ensures that the next state is recorded completely. Called after an error, because the record
  /// with the base may not exist.
  mutating func forgetBase() { base = nil }

  // MARK: Deleting old records

  /// Returns the number of the oldest record to keep; `nil` if no records should be deleted.
  ///
  /// To keep deletions rare, returns `nil` until a limit is exceeded by a quarter, or by 250
  /// records.
  /// - Parameters:
  ///   - last: The number of the last record.
  ///   - oldest: The number of the oldest record.
  ///   - unexpired: The number of the first record that is not too old; `nil` if it is not known.
  mutating func oldestRecordToKeep(
    upTo last: Int64, oldest: Int64, unexpired: Int64? = nil
  ) -> Int64? {
    var first = oldest
    if last - oldest > recordLimit + min(recordLimit / 4, 250) { first = last - recordLimit + 1 }
    if let unexpired { first = max(first, min(unexpired, last - Self.minimumRecordCount + 1)) }
    if byteCount > byteLimit + byteLimit / 4 {
      var rest = byteCount
      for group in groups {
        guard rest > byteLimit, last - group.lastRecord >= Self.minimumRecordCount else {
          break
        }
        rest -= group.byteCount
        first = max(first, group.lastRecord + 1)
      }
    }
    guard first > oldest else { return nil }
    if first - oldest > Self.deletionLimit {
      guard last.isMultiple(of: Self.deletionInterval) else { return nil }
      first = oldest + Self.deletionLimit
    }
    // Differences that are kept require their base, so the base is kept too.
    if let group = groups.first(where: { $0.lastRecord >= first }), group.baseRecord < first {
      first = group.baseRecord
    }
    guard first > oldest else { return nil }
    while let group = groups.first, group.lastRecord < first {
      byteCount -= group.byteCount
      groups.removeFirst()
    }
    return first
  }
}

// Reading the recorded states.
extension RecordedStates {
  /// Adds the groups of the records in a database. The next state will be recorded completely.
  mutating func addGroups(of database: Database) throws {
    let hasDifferences = try JournalCheck.selectNumber(
      "SELECT EXISTS (SELECT 1 FROM record WHERE base IS NOT NULL)", in: database)
    let hasLargeState = try JournalCheck.selectNumber(
      "SELECT length(state) >= \(Self.minimumByteCount) FROM record ORDER BY id DESC LIMIT 1",
      in: database)
    guard hasDifferences != 0 || hasLargeState != 0 else { return }
    groups = try database.select(
      """
      SELECT coalesce(base, id) AS first, max(id), sum(length(CAST(state AS BLOB))) AS size FROM record
      GROUP BY first HAVING size >= \(Self.minimumByteCount) ORDER BY first
      """
    ) { Group(baseRecord: $0.integer(0), lastRecord: $0.integer(1), byteCount: Int($0.integer(2))) }
    byteCount = groups.reduce(0) { $0 + $1.byteCount }
  }
}

/// Reads states from records that contain complete states or differences.
final class RecordedStateReader {
  private let database: Database
  /// The base that was read last, and its record. Usually, the next difference has the same base.
  private var cachedBase: (record: Int64, state: [UInt8])?

  init(_ database: Database) { self.database = database }

  /// Returns the state of a row.
  /// - Parameters:
  ///   - row: A row of the table `record`.
  ///   - id: The column with the number of the record. The columns `base` and `state` follow this
  ///     column.
  func state(of row: Row, at id: Int32) throws -> [UInt8] {
    let (record, text) = (row.integer(id), row.bytes(id + 2))
    guard !row.isNull(id + 1) else { return text }
    let base = row.integer(id + 1)
    do { return try StateDifference.apply(text, to: try state(ofBase: base)) } catch {
      throw UnreadableState(record: record, baseRecord: base)
    }
  }

  private func state(ofBase record: Int64) throws -> [UInt8] {
    if let cachedBase, cachedBase.record == record { return cachedBase.state }
    let state = try database.select(
      "SELECT state FROM record WHERE id = ? AND base IS NULL", .integer(record)
    ) { $0.bytes(0) }.first
    guard let state else { throw StateDifference.UnreadableError() }
    cachedBase = (record, state)
    return state
  }
}

/// The error for a recorded difference that cannot be applied to its base.
struct UnreadableState: Error, CustomStringConvertible {
  let record: Int64
  let baseRecord: Int64

  var description: String {
    "the state of record \(record) cannot be read: its difference does not fit the state of record \(baseRecord)"
  }
}
