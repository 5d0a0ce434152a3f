import Glibc
import PipeSupport

/// Waits for what nothing tells of: no descriptor becomes readable, and no call returns.
package enum Polling {
  /// Asks until there is an answer, and blocks this thread so long.
  /// - Returns: The answer; `nil` where there was none in time. Asked once at least.
  package static func wait<Answer, Failure>(
    every pause: Duration, until deadline: ContinuousClock.Instant,
    _ ask: () throws(Failure) -> Answer?
  ) throws(Failure) -> Answer? {
    while true {
      if let answer = try ask() { return answer }
      guard ContinuousClock.now < deadline else { return nil }
      usleep(useconds_t(clamping: pause.clampedNanoseconds / 1_000))
    }
  }
}
