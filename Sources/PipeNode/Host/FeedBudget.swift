/// Limits the rate of a feed, permits bursts without a gap, and counts the skipped items.
///
/// While the rate is low, all items are reported. After a burst has used up the budget, items are
/// skipped until the budget suffices for a full burst again. So reported items are consecutive
/// within each burst.
package struct FeedBudget: Sendable {
  /// The decision whether to report an item.
  package enum Verdict: Hashable, Sendable {
    case report
    /// Report the item, and call ``reopen()`` after this time.
    case reportAndPause(Duration)
    case skip
  }

  /// The maximum number of items that are reported in any second: the items of a full burst, and
  /// the items for which the budget refills during the second.
  package static let maximumItemsPerSecond = 2_000
  /// The number of consecutive items that are reported before items are skipped.
  package static let burstSize = 200
  /// The time in which the budget refills for one item. Unit: nanoseconds.
  private static let itemCost = Int64(
    (1_000_000_000 / Double(maximumItemsPerSecond - burstSize)).rounded(.up))

  /// The time at which the budget is full again. Unit: nanoseconds.
  private var fullAt = Int64.min
  private var isClosed = false
  /// The number of items left out since the budget was used up.
  private var skippedCount: UInt64 = 0

  package init() {}

  /// Counts an item against the budget, and decides whether to report the item.
  /// - Parameter now: Returns the current time. Called only if the time is required. Unit:
  ///   nanoseconds.
  package mutating func take(at now: () -> Int64) -> Verdict {
    if isClosed {
      skippedCount += 1
      return .skip
    }
    let now = now()
    fullAt = max(fullAt, now) + Self.itemCost
    let timeUntilFull = fullAt - now
    guard timeUntilFull > Int64(Self.burstSize - 1) * Self.itemCost else { return .report }
    isClosed = true
    return .reportAndPause(.nanoseconds(timeUntilFull))
  }

  /// Notes that the budget suffices for a full burst again.
  /// - Returns: The number of items that were skipped.
  package mutating func reopen() -> UInt64 {
    defer { skippedCount = 0 }
    isClosed = false
    return skippedCount
  }
}

/// Decides when to send a node's summary: at once after a change, and at most ten times a second.
package struct SummaryPace: Sendable {
  /// The decision whether to send a summary.
  package enum Verdict: Hashable, Sendable {
    case report
    /// Check again after this time, and not before.
    case wait(Duration)
  }

  /// The minimum time between two summaries. Unit: nanoseconds.
  package static let minimumInterval: Int64 = 100_000_000

  private var lastReportTime: Int64?
  /// Whether a wait is in progress.
  package private(set) var isWaiting = false

  package init() {}

  /// Notes that the summary has changed.
  /// - Parameter now: The current time. Unit: nanoseconds.
  package mutating func noteChange(at now: Int64) -> Verdict {
    let wait = lastReportTime.map { $0 + Self.minimumInterval - now } ?? 0
    guard wait <= 0 else {
      isWaiting = true
      return .wait(.nanoseconds(wait))
    }
    lastReportTime = now
    return .report
  }

  /// Notes that the wait is over.
  package mutating func endWait() { isWaiting = false }
}
