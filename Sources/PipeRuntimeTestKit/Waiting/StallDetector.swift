import Glibc
import PipeRuntime

/// Tells when what a test waits for has stalled: this process, and those of a test's directory, or of
/// all directories that tests of this process use.
struct StallDetector {
  /// How often the processes are looked at.
  static let interval: Duration = .milliseconds(200)

  private let directory: TestDirectory?
  private var clock: StallClock
  private var times = ThreadTimes()
  private var last = ContinuousClock.now

  init(limit: Duration, directory: TestDirectory? = nil) {
    self.directory = directory
    clock = StallClock(limit: limit)
  }

  /// Looks at the processes where it is time to.
  /// - Returns: What was seen, where they have stalled.
  mutating func check() -> Stall? {
    let now = ContinuousClock.now
    let elapsed = now - last
    // A limit that is shorter than the interval is looked at in time.
    guard elapsed >= min(Self.interval, clock.limit) else { return nil }
    last = now
    let children = directory?.processIDs ?? TestDirectory.allProcessIDs
    clock.take(times.sample(of: [getpid()] + children, elapsed: elapsed))
    return clock.hasStalled ? Stall(clock) : nil
  }
}

/// A wait that has ended because nothing moved any more.
struct Stall: Sendable, CustomStringConvertible {
  let limit: Duration
  let account: StallClock.Account

  init(_ clock: StallClock) { (limit, account) = (clock.limit, clock.account) }

  /// The lines of the description as parts of a longer text.
  var indented: String {
    description.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n")
  }

  /// What the time went into, and what the machine was doing.
  var description: String {
    """
    of \(account.elapsed.shortText) waited, nothing moved for \(account.stalled.shortText) \
    (the limit is \(limit.shortText)); its threads computed for \(account.computed.shortText) and \
    stood in queues for a processor for \(account.queued.shortText)
    \(MachineReport.now)
    """
  }
}

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
