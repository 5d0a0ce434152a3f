import Glibc
import PipeRuntime

/// Detects that a wait makes no progress, by sampling this process and the processes of test
/// directories: of one directory, or of the directories of all tests in this process.
struct StallDetector {
  /// The pause between two samples.
  static let samplingInterval: Duration = .milliseconds(200)

  private let directory: TestDirectory?
  private var clock: StallClock
  private var threadTimes = ThreadTimes()
  private var lastSampleTime = ContinuousClock.now

  init(limit: Duration, directory: TestDirectory? = nil) {
    self.directory = directory
    clock = StallClock(limit: limit)
  }

  /// Takes a sample, if enough time has passed since the last sample.
  /// - Returns: The stall; `nil` if the wait has not stalled.
  mutating func check() -> Stall? {
    let now = ContinuousClock.now
    let elapsed = now - lastSampleTime
    // If the limit is shorter than the sampling interval, the next sample is due when the limit has
    // passed.
    guard elapsed >= min(Self.samplingInterval, clock.stallLimit) else { return nil }
    lastSampleTime = now
    let children = directory?.processIDs ?? TestDirectory.allProcessIDs
    clock.add(threadTimes.sample(of: [getpid()] + children, elapsed: elapsed))
    return clock.hasStalled ? Stall(clock) : nil
  }
}

/// The description of a wait that ended because there was no progress.
struct Stall: Sendable, CustomStringConvertible {
  let limit: Duration
  let breakdown: StallClock.TimeBreakdown

  init(_ clock: StallClock) { (limit, breakdown) = (clock.stallLimit, clock.breakdown) }

  /// The description with indented lines, for use in a longer text.
  var indented: String {
    description.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n")
  }

  /// A text that says how the waiting time was spent, and how busy the host is.
  var description: String {
    """
    of \(breakdown.elapsed.shortText) waited, nothing moved for \(breakdown.stalledTime.shortText) \
    (the limit is \(limit.shortText)); its threads computed for \(breakdown.cpuTime.shortText) and \
    waited for a processor for \(breakdown.queueTime.shortText)
    \(MachineReport.now)
    """
  }
}

/// Measures how long a wait makes no progress, from samples of the watched processes.
///
/// Time in which a process computes, or waits for a processor or a disk, does not count. So on a
/// busy host, a wait takes longer, but does not reach the limit.
package struct StallClock {
  /// The resources that the watched threads have used since the previous sample.
  package struct Sample: Hashable, Sendable {
    /// The time since the previous sample, on a clock that also advances while the host is
    /// suspended.
    package var elapsed: Duration
    /// The processor time of all threads together.
    package var cpuTime: Duration
    /// The total time that all threads have waited in a queue for a processor.
    package var queueTime: Duration
    /// Whether, at the time of the sample, any thread was runnable or was waiting for a disk.
    package var isRunnable: Bool
    /// Whether processes or threads have started or ended since the previous sample.
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

  /// A breakdown of the waiting time by what the watched processes did.
  package struct TimeBreakdown: Hashable, Sendable {
    package var elapsed = Duration.zero
    /// The part of the waiting time in which there was no progress.
    package var stalledTime = Duration.zero
    package var cpuTime = Duration.zero
    package var queueTime = Duration.zero
  }

  let stallLimit: Duration
  package private(set) var breakdown = TimeBreakdown()

  /// The maximum time without progress that one sample can add. If more time has passed since the
  /// previous sample, busy processors have delayed the sampling itself.
  static let maximumSampleDuration: Duration = .milliseconds(500)
  /// The constant part of the limit for the total processor time. The limit is ten times the stall
  /// limit, plus this allowance. If the processes use more time, one of them is probably in an
  /// endless loop, so the wait counts as stalled.
  static let cpuTimeAllowance: Duration = .seconds(60)

  package init(limit: Duration) { self.stallLimit = limit }

  package mutating func add(_ sample: Sample) {
    breakdown.elapsed += sample.elapsed
    breakdown.cpuTime += sample.cpuTime
    breakdown.queueTime += sample.queueTime
    guard !sample.isRunnable, !sample.hasChanged else { return }
    let idleTime =
      min(sample.elapsed, Self.maximumSampleDuration) - sample.cpuTime - sample.queueTime
    breakdown.stalledTime += max(.zero, idleTime)
  }

  /// Whether the wait has stalled: the watched processes made no progress for the limit, or used
  /// more processor time than is allowed.
  package var hasStalled: Bool {
    breakdown.stalledTime >= stallLimit
      || breakdown.cpuTime >= stallLimit * 10 + Self.cpuTimeAllowance
  }
}
