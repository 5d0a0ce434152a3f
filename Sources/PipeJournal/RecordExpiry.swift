import PipeSupport

/// Decides when a journal looks for records that are older than the maximum age.
///
/// Each check reads the database. So a record is deleted by the first check after it has expired,
/// which may be up to an eighth of the age later.
struct RecordExpiry {
  /// The maximum age of a record; `nil` if records do not expire. Unit: nanoseconds.
  private let age: Int64?
  /// The time of the last check, and of the next one.
  private var lastCheck = Int64.min
  private var nextCheck = Int64.min

  private static let minimumInterval: Int64 = 1_000_000_000
  /// The time until the next check if the last one has not found all expired records.
  private static let continuationInterval: Int64 = 250_000_000

  init(after age: Duration?) { self.age = age?.clampedNanoseconds }

  /// Begins a check if one is due.
  /// - Returns: The time of the oldest record to keep; `nil` if no check is due.
  mutating func beginCheck(at time: Int64) -> Int64? {
    // If the clock was set back, the time of the next check is too far in the future.
    guard let age, time >= nextCheck || time < lastCheck else { return nil }
    lastCheck = time
    nextCheck = time + max(age / 8, Self.minimumInterval)
    return time - age
  }

  /// Makes the next check due soon, because more records may have expired.
  mutating func continueCheck(at time: Int64) { nextCheck = time + Self.continuationInterval }
}
