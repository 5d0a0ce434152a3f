/// Lets so much of a feed be told a second, in bursts without a gap, and counts what is left out.
///
/// What comes at a lower rate is told completely. Once a burst is used up, nothing is told until all of it is
/// there again: what is told lies together.
package struct FeedBudget: Sendable {
  /// What to do with what has happened.
  package enum Verdict: Hashable, Sendable {
    case tell
    /// Tell it, and ``reopen()`` after this time.
    case tellAndClose(Duration)
    case skip
  }

  /// The most that is told in any second: a whole burst, and what comes back meanwhile.
  package static let perSecond = 2_000
  /// What is told one after the other at most, where more happens than can be told.
  package static let burst = 200
  /// The time after which one more may be told. Unit: nanoseconds.
  private static let price = Int64((1_000_000_000 / Double(perSecond - burst)).rounded(.up))

  /// When all that was told is paid for.
  private var paidAt = Int64.min
  private var isClosed = false
  /// What was left out since it was closed.
  private var skipped: UInt64 = 0

  package init() {}

  /// Something has happened.
  /// - Parameter now: The time, which is asked for only where it is needed. Unit: nanoseconds.
  package mutating func take(at now: () -> Int64) -> Verdict {
    if isClosed {
      skipped += 1
      return .skip
    }
    let now = now()
    paidAt = max(paidAt, now) + Self.price
    let debt = paidAt - now
    guard debt > Int64(Self.burst - 1) * Self.price else { return .tell }
    isClosed = true
    return .tellAndClose(.nanoseconds(debt))
  }

  /// The burst is there again.
  /// - Returns: How many were left out.
  package mutating func reopen() -> UInt64 {
    defer { skipped = 0 }
    isClosed = false
    return skipped
  }
}

/// When a node's summary is told: at once after a change, and at most ten times a second.
package struct SummaryPace: Sendable {
  /// What to do with a change.
  package enum Verdict: Hashable, Sendable {
    case tell
    /// Look again after this time; nothing needs to be looked at before.
    case wait(Duration)
  }

  /// The least time between two summaries. Unit: nanoseconds.
  package static let interval: Int64 = 100_000_000

  private var lastTold: Int64?
  /// Whether a wait has not ended.
  package private(set) var isWaiting = false

  package init() {}

  /// There is something to tell.
  /// - Parameter now: Unit: nanoseconds.
  package mutating func changed(at now: Int64) -> Verdict {
    let wait = lastTold.map { $0 + Self.interval - now } ?? 0
    guard wait <= 0 else {
      isWaiting = true
      return .wait(.nanoseconds(wait))
    }
    lastTold = now
    return .tell
  }

  /// The wait is over.
  package mutating func waited() { isWaiting = false }
}
