/// Limits the rate of a feed, lets bursts through without a gap, and counts the items that are left
/// out.
///
/// Items at a lower rate are all reported. Once a burst is used up, nothing is reported until the
/// full burst is available again, so that the reported items are consecutive.
package struct FeedBudget: Sendable {
  /// The decision about an item.
  package enum Verdict: Hashable, Sendable {
    case report
    /// Report the item, and call ``reopen()`` after this time.
    case reportAndPause(Duration)
    case skip
  }

  /// The maximum number of items in any second: a full burst, and the budget that refills during
  /// the second.
  package static let perSecond = 2_000
  /// The maximum number of consecutive items when more occur than can be reported.
  package static let burst = 200
  /// The time after which the budget allows another item. Unit: nanoseconds.
  private static let itemCost = Int64((1_000_000_000 / Double(perSecond - burst)).rounded(.up))

  /// The time at which the budget is full again. Unit: nanoseconds.
  private var fullAt = Int64.min
  private var isClosed = false
  /// The number of items left out since the budget was used up.
  private var skipped: UInt64 = 0

  package init() {}

  /// Counts an item.
  /// - Parameter now: Returns the time; called only if it is needed. Unit: nanoseconds.
  package mutating func take(at now: () -> Int64) -> Verdict {
    if isClosed {
      skipped += 1
      return .skip
    }
    let now = now()
    fullAt = max(fullAt, now) + Self.itemCost
    let timeUntilFull = fullAt - now
    guard timeUntilFull > Int64(Self.burst - 1) * Self.itemCost else { return .report }
    isClosed = true
    return .reportAndPause(.nanoseconds(timeUntilFull))
  }

  /// Notes that the full burst is available again.
  /// - Returns: The number of items that were left out.
  package mutating func reopen() -> UInt64 {
    defer { skipped = 0 }
    isClosed = false
    return skipped
  }
}

/// Decides when to send a node's summary: at once after a change, and at most ten times a second.
package struct SummaryPace: Sendable {
  /// The decision about a change.
  package enum Verdict: Hashable, Sendable {
    case report
    /// Check again after this time; no check is needed before.
    case wait(Duration)
  }

  /// The least time between two summaries. Unit: nanoseconds.
  package static let interval: Int64 = 100_000_000

  private var lastReported: Int64?
  /// Whether a wait is in progress.
  package private(set) var isWaiting = false

  package init() {}

  /// Notes a change.
  /// - Parameter now: The current time. Unit: nanoseconds.
  package mutating func noteChange(at now: Int64) -> Verdict {
    let wait = lastReported.map { $0 + Self.interval - now } ?? 0
    guard wait <= 0 else {
      isWaiting = true
      return .wait(.nanoseconds(wait))
    }
    lastReported = now
    return .report
  }

  /// Notes that the wait is over.
  package mutating func endWait() { isWaiting = false }
}
