/// The pauses before repeated attempts: each twice as long as the one before, up to a maximum.
package struct Backoff: Hashable, Sendable {
  /// The pause before the first repeated attempt. Default: 200 ms.
  package var initial: Duration
  /// The longest pause. Default: 10 s.
  package var maximum: Duration
  /// The part of a pause that may be taken off at random. Range: 0…1. Default: 0.
  package var jitter: Double

  package init(
    initial: Duration = .milliseconds(200), maximum: Duration = .seconds(10), jitter: Double = 0
  ) {
    self.initial = max(initial, .zero)
    self.maximum = max(maximum, .zero)
    self.jitter = min(max(jitter, 0), 1)
  }

  /// The pause before repeated attempt `attempt`, counted from 0, without jitter.
  package func pause(before attempt: Int) -> Duration {
    var pause = min(initial, maximum)
    guard pause > .zero, attempt > 0 else { return pause }
    for _ in 0..<attempt {
      // Compared with the half, so that doubling cannot overflow.
      if pause > maximum / 2 { return maximum }
      pause *= 2
    }
    return pause
  }

  /// The same pause, shortened at random by up to `jitter` of it.
  package func pause(
    before attempt: Int, using generator: inout some RandomNumberGenerator
  ) -> Duration {
    let whole = pause(before: attempt)
    guard jitter > 0 else { return whole }
    return whole * (1 - Double.random(in: 0...jitter, using: &generator))
  }
}
