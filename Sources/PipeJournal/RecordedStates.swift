import PipeMachines

/// Decides how a journal records each state: whole, or as the difference to the last state that was recorded whole.
///
/// A difference always refers to a whole state, so a reader needs at most two records for a state. The records after a
/// whole state that refer to it form a group with it, and are deleted together with it.
struct RecordedStates {
  /// A recorded state.
  struct Entry: Equatable {
    /// The record with the whole state that the difference refers to; `nil` for a whole state.
    var base: Int64?
    /// The state or the difference.
    var text: [UInt8]
  }

  /// A large whole state, and the differences that refer to it.
  private struct Group {
    let base: Int64
    var last: Int64
    var byteCount: Int
  }

  /// The last state that was recorded whole, and its record.
  private var base: (record: Int64, state: [UInt8])?
  /// The groups, by their records.
  private var groups: [Group] = []
  /// The size of all groups. Unit: bytes.
  private var byteCount = 0
  /// The number of consecutive differences that were too large.
  private var failureCount = 0
  /// The number of next states to record whole without looking for a difference.
  private var skipCount = 0

  /// Smaller states are recorded whole. Unit: bytes.
  static let minimumByteCount = 4 << 10
  /// The maximum number of records in a group. Unit: records.
  private static let groupLimit: Int64 = 256
  /// The number of records that are kept for readers of the journal. Unit: records.
  private static let recordLimit: Int64 = 1_000
  /// The minimum number of records that are kept if their states are large. Unit: records.
  private static let minimumRecordCount: Int64 = 8
  /// The maximum size of the large states that are kept. Unit: bytes.
  private static let byteLimit = 4 << 20

  // MARK: Recording

  /// Returns how to record a state.
  /// - Parameter record: The number of its record.
  mutating func entry(for state: [UInt8], record: Int64) -> Entry {
    guard state.count >= Self.minimumByteCount else {
      base = nil
      return Entry(base: nil, text: state)
    }
    if let difference = difference(to: state, record: record) { return difference }
    base = (record, state)
    groups.append(Group(base: record, last: record, byteCount: state.count))
    byteCount += state.count
    return Entry(base: nil, text: state)
  }

  private mutating func difference(to state: [UInt8], record: Int64) -> Entry? {
    guard let base, let group = groups.last, group.base == base.record,
      record - base.record < Self.groupLimit
    else { return nil }
    // Together, the differences of a group are at most as large as its whole state.
    let limit = min(state.count / 2, 2 * base.state.count - group.byteCount)
    guard limit > 0 else { return nil }
    guard skipCount == 0 else {
      skipCount -= 1
      return nil
    }
    guard let text = StateDifference.make(from: base.state, to: state, limit: limit) else {
      // The state may change as a whole with each step, so the search is repeated less and less often.
      skipCount = min(1 << failureCount, 64) - 1
      failureCount = min(failureCount + 1, 6)
      return nil
    }
    failureCount = 0
    groups[groups.count - 1].last = record
    groups[groups.count - 1].byteCount += text.count
    byteCount += text.count
    return Entry(base: base.record, text: text)
  }

  /// Records the next state whole: the last record may not exist.
  mutating func forgetBase() { base = nil }

  // MARK: Deleting

  /// Returns the first record to keep, if it is time to delete the records before it.
  ///
  /// Records are deleted only when there are a quarter more than necessary, so that it happens seldom.
  /// - Parameters:
  ///   - last: The last record.
  ///   - oldest: The oldest record.
  mutating func firstKept(of last: Int64, oldest: Int64) -> Int64? {
    var first = oldest
    if last - oldest > Self.recordLimit + Self.recordLimit / 4 {
      first = last - Self.recordLimit + 1
    }
    if byteCount > Self.byteLimit + Self.byteLimit / 4 {
      var rest = byteCount
      for group in groups {
        guard rest > Self.byteLimit, last - group.last >= Self.minimumRecordCount else { break }
        rest -= group.byteCount
        first = max(first, group.last + 1)
      }
    }
    guard first > oldest else { return nil }
    // The differences that are kept need their whole state.
    if let group = groups.first(where: { $0.last >= first }), group.base < first {
      first = group.base
    }
    guard first > oldest else { return nil }
    while let group = groups.first, group.last < first {
      byteCount -= group.byteCount
      groups.removeFirst()
    }
    return first
  }
}

// Reading.
extension RecordedStates {
  /// Reads the groups of a database.
  init(_ database: Database) throws {
    let hasDifferences = try JournalCheck.number(
      "SELECT EXISTS (SELECT 1 FROM record WHERE base IS NOT NULL)", in: database)
    let hasLargeState = try JournalCheck.number(
      "SELECT length(state) >= \(Self.minimumByteCount) FROM record ORDER BY id DESC LIMIT 1",
      in: database)
    guard hasDifferences != 0 || hasLargeState != 0 else { return }
    groups = try database.select(
      """
      SELECT coalesce(base, id) AS first, max(id), sum(length(CAST(state AS BLOB))) AS size FROM record
      GROUP BY first HAVING size >= \(Self.minimumByteCount) ORDER BY first
      """
    ) { Group(base: $0.integer(0), last: $0.integer(1), byteCount: Int($0.integer(2))) }
    byteCount = groups.reduce(0) { $0 + $1.byteCount }
  }
}

/// Reads the states of records, whole or as differences.
final class RecordedStateReader {
  private let database: Database
  /// The whole state that was read last, and its record: usually, the next difference refers to it as well.
  private var base: (record: Int64, state: [UInt8])?

  init(_ database: Database) { self.database = database }

  /// Returns the state of a row.
  /// - Parameters:
  ///   - row: A row of the table `record`.
  ///   - id: The column with the number of the record. The columns `base` and `state` follow it.
  func state(of row: Row, at id: Int32) throws -> [UInt8] {
    let (record, text) = (row.integer(id), row.bytes(id + 2))
    guard !row.isNull(id + 1) else { return text }
    let base = row.integer(id + 1)
    do { return try StateDifference.apply(text, to: try state(ofBase: base)) } catch {
      throw UnreadableState(record: record, base: base)
    }
  }

  private func state(ofBase record: Int64) throws -> [UInt8] {
    if let base, base.record == record { return base.state }
    let state = try database.select(
      "SELECT state FROM record WHERE id = ? AND base IS NULL", .integer(record)
    ) { $0.bytes(0) }.first
    guard let state else { throw StateDifference.Unreadable() }
    base = (record, state)
    return state
  }
}

/// The error for a state that is recorded as a difference which does not fit.
struct UnreadableState: Error, CustomStringConvertible {
  let record: Int64
  let base: Int64

  var description: String {
    "the state of record \(record) cannot be read: its difference does not fit the state of record \(base)"
  }
}
