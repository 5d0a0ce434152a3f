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
    // If the limit is shorter than the interval, checks after the limit.
    guard elapsed >= min(Self.interval, clock.limit) else { return nil }
    last = now
    let children = directory?.processIDs ?? TestDirectory.allProcessIDs
    clock.add(times.sample(of: [getpid()] + children, elapsed: elapsed))
    return clock.hasStalled ? Stall(clock) : nil
  }
}

/// A wait that was abandoned because there was no progress.
struct Stall: Sendable, CustomStringConvertible {
  let limit: Duration
  let breakdown: StallClock.TimeBreakdown

  init(_ clock: StallClock) { (limit, breakdown) = (clock.limit, clock.breakdown) }

  /// The indented lines of the description, for use in a longer text.
  var indented: String {
    description.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n")
  }

  /// How the waiting time was spent, and the load of the machine.
  var description: String {
    """
    of \(breakdown.elapsed.shortText) waited, nothing moved for \(breakdown.stalled.shortText) \
    (the limit is \(limit.shortText)); its threads computed for \(breakdown.cpuTime.shortText) and \
    stood in queues for a processor for \(breakdown.queueTime.shortText)
    \(MachineReport.now)
    """
  }
}

/// The time without progress in a wait, computed from samples of the watched processes.
///
/// Time in which the processes compute, or wait for a processor or a disk, does not count. So a
/// busy machine makes a wait longer, but does not use up the limit.
package struct StallClock {
  /// The resources that the watched threads have used since the previous sample.
  package struct Sample: Hashable, Sendable {
    /// The time since the previous sample, on a clock that never stops.
    package var elapsed: Duration
    /// The processor time of all threads together.
    package var cpuTime: Duration
    /// The time that threads waited in a queue for a processor, summed over all threads.
    package var queueTime: Duration
    /// Whether one of the threads is runnable, or waits for a disk, at this moment.
    package var isRunnable: Bool
    /// Whether processes or threads have started or ended.
    package var hasChanged: Bool

    package init(
      elapsed: Duration, cpuTime: Duration = .zero, queueTime: Duration = .zero,
      isRunnable: Bool = false, hasChanged: Bool = false
    ) {
      self.elapsed = elapsed
      self.cpuTime = cpuTime
      self.queueTime = queueTime
      self.isRunnable = isRunnable
      self.hasChanged = hasChanged
    }
  }

  /// How the waiting time was spent.
  package struct TimeBreakdown: Hashable, Sendable {
    package var elapsed = Duration.zero
    /// The time without progress.
    package var stalled = Duration.zero
    package var cpuTime = Duration.zero
    package var queueTime = Duration.zero
  }

  let limit: Duration
  package private(set) var breakdown = TimeBreakdown()

  /// The longest time that one sample can add to the time without progress. A sample that covers a
  /// longer time was itself delayed by a busy processor.
  static let longestSample: Duration = .milliseconds(500)
  /// The processor time that is allowed in addition to ten times the limit. Processes that use more
  /// are in an endless loop, which counts as a stall.
  static let cpuTimeAllowance: Duration = .seconds(60)

  package init(limit: Duration) { self.limit = limit }

  package mutating func add(_ sample: Sample) {
    breakdown.elapsed += sample.elapsed
    breakdown.cpuTime += sample.cpuTime
    breakdown.queueTime += sample.queueTime
    guard !sample.isRunnable, !sample.hasChanged else { return }
    let idleTime = min(sample.elapsed, Self.longestSample) - sample.cpuTime - sample.queueTime
    breakdown.stalled += max(.zero, idleTime)
  }

  /// Whether the watched processes have made no progress for the limit, or have used more processor
  /// time than is allowed.
  package var hasStalled: Bool {
    breakdown.stalled >= limit || breakdown.cpuTime >= limit * 10 + Self.cpuTimeAllowance
  }
}
