/// The delays between repeated attempts. Each delay is twice as long as the previous delay, up to a
/// maximum.
public struct Backoff: Hashable, Sendable {
  /// The delay before the first repeated attempt. Default: 200 ms.
  public var initial: Duration
  /// The longest delay. Default: 10 s.
  public var max: Duration
  /// The fraction of a delay that jitter may randomly remove, so that nodes that failed together do
  /// not all restart at the same time. Range: 0…1. Default: 0.1.
  public var jitter: Double

  /// Creates a backoff.
  public init(
    initial: Duration = .milliseconds(200), max: Duration = .seconds(10), jitter: Double = 0.1
  ) {
    self.initial = Swift.max(initial, .zero)
    self.max = Swift.max(max, .zero)
    self.jitter = min(Swift.max(jitter, 0), 1)
  }

  /// Returns the delay before retry `attempt`, counted from 0, without jitter.
  public func pause(before attempt: Int) -> Duration {
    var pause = min(initial, max)
    guard pause > .zero, attempt > 0 else { return pause }
    for _ in 0..<attempt {
      // Compares with half the maximum, so that doubling cannot overflow.
      if pause > max / 2 { return max }
      pause *= 2
    }
    return pause
  }

  /// Returns the delay before retry `attempt`, shortened at random by up to the fraction `jitter`.
  public func pause(
    before attempt: Int, using generator: inout some RandomNumberGenerator
  ) -> Duration {
    let fullPause = pause(before: attempt)
    guard jitter > 0 else { return fullPause }
    return fullPause * (1 - Double.random(in: 0...jitter, using: &generator))
  }
}
