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
