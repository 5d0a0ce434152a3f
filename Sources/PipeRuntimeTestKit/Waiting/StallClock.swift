/// How much of a wait nothing moved: a pure account of samples of what is waited for.
///
/// Time in which it computed, or waited for a processor or a disk, is the machine's and does not
/// count: a busy machine makes a wait longer, and a limit on what has stalled stays as it is.
package struct StallClock {
  /// What the threads that are waited for have used since the sample before.
  package struct Sample: Hashable, Sendable {
    /// Since the sample before, on a clock that never stops.
    package var elapsed: Duration
    /// Processor time of all threads together.
    package var computed: Duration
    /// Time that threads stood in a queue for a processor, added up.
    package var queued: Duration
    /// Whether one of the threads can run, or waits for a disk, at this moment.
    package var isRunnable: Bool
    /// Whether processes or threads have come or gone.
    package var hasChanged: Bool

    package init(
      elapsed: Duration, computed: Duration = .zero, queued: Duration = .zero,
      isRunnable: Bool = false, hasChanged: Bool = false
    ) {
      self.elapsed = elapsed
      self.computed = computed
      self.queued = queued
      self.isRunnable = isRunnable
      self.hasChanged = hasChanged
    }
  }

  /// What the wait consisted of so far.
  package struct Account: Hashable, Sendable {
    package var elapsed = Duration.zero
    /// Time in which nothing moved.
    package var stalled = Duration.zero
    package var computed = Duration.zero
    package var queued = Duration.zero
  }

  let limit: Duration
  package private(set) var account = Account()

  /// A sample that comes late was late for want of a processor itself: no more of it than this counts.
  static let longestSample: Duration = .milliseconds(500)
  /// What computes for ever is stuck as well. Unit: processor time beyond ten times the limit.
  static let computingAllowance: Duration = .seconds(60)

  package init(limit: Duration) { self.limit = limit }

  package mutating func take(_ sample: Sample) {
    account.elapsed += sample.elapsed
    account.computed += sample.computed
    account.queued += sample.queued
    guard !sample.isRunnable, !sample.hasChanged else { return }
    let still = min(sample.elapsed, Self.longestSample) - sample.computed - sample.queued
    account.stalled += max(.zero, still)
  }

  /// Whether what is waited for has stalled for the limit, or has computed beyond all measure.
  package var hasStalled: Bool {
    account.stalled >= limit || account.computed >= limit * 10 + Self.computingAllowance
  }
}
