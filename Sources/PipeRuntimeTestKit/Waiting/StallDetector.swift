import Glibc
import PipeRuntime

/// Detects that a wait makes no progress, by watching this process and the processes of a test's
/// directory, or of the directories of all tests in this process.
struct StallDetector {
  /// The pause between two samples.
  static let interval: Duration = .milliseconds(200)

  private let directory: TestDirectory?
  private var clock: StallClock
  private var times = ThreadTimes()
  private var last = ContinuousClock.now

  init(limit: Duration, directory: TestDirectory? = nil) {
    self.directory = directory
    clock = StallClock(limit: limit)
  }

  /// Takes a sample if it is due.
  /// - Returns: The stall, if there is one.
  mutating func check() -> Stall? {
    let now = ContinuousClock.now
    let elapsed = now - last
    // A limit that is shorter than the interval is checked in time.
    guard elapsed >= min(Self.interval, clock.limit) else { return nil }
    last = now
    let children = directory?.processIDs ?? TestDirectory.allProcessIDs
    clock.take(times.sample(of: [getpid()] + children, elapsed: elapsed))
    return clock.hasStalled ? Stall(clock) : nil
  }
}

/// The end of a wait without progress.
struct Stall: Sendable, CustomStringConvertible {
  let limit: Duration
  let account: StallClock.Account

  init(_ clock: StallClock) { (limit, account) = (clock.limit, clock.account) }

  /// The indented lines of the description, for use in a longer text.
  var indented: String {
    description.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n")
  }

  /// The composition of the waiting time, and the load of the machine.
  var description: String {
    """
    of \(account.elapsed.shortText) waited, nothing moved for \(account.stalled.shortText) \
    (the limit is \(limit.shortText)); its threads computed for \(account.computed.shortText) and \
    stood in queues for a processor for \(account.queued.shortText)
    \(MachineReport.now)
    """
  }
}

/// The time without progress in a wait, computed from samples of the watched processes.
///
/// Time in which they computed, or waited for a processor or a disk, does not count. So a busy
/// machine makes a wait longer, but does not consume the limit.
package struct StallClock {
  /// The resources that the watched threads have used since the previous sample.
  package struct Sample: Hashable, Sendable {
    /// The time since the previous sample, on a clock that never stops.
    package var elapsed: Duration
    /// The processor time of all threads together.
    package var computed: Duration
    /// The time that threads waited in a queue for a processor, added up.
    package var queued: Duration
    /// Whether one of the threads is runnable, or waits for a disk, at this moment.
    package var isRunnable: Bool
    /// Whether processes or threads have started or ended.
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

  /// The composition of the waiting time so far.
  package struct Account: Hashable, Sendable {
    package var elapsed = Duration.zero
    /// The time without progress.
    package var stalled = Duration.zero
    package var computed = Duration.zero
    package var queued = Duration.zero
  }

  let limit: Duration
  package private(set) var account = Account()

  /// The largest part of a sample that counts. A late sample was itself delayed by a busy
  /// processor.
  static let longestSample: Duration = .milliseconds(500)
  /// The processor time, beyond ten times the limit, after which endless computing counts as a
  /// stall.
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

  /// Whether the watched processes have stalled for the limit, or have computed beyond the
  /// allowance.
  package var hasStalled: Bool {
    account.stalled >= limit || account.computed >= limit * 10 + Self.computingAllowance
  }
}
