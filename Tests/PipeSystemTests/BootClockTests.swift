import PipeSupport
import PipeSystem
import Testing

@Suite("The clock that continues across processes")
struct BootClockTests {
  @Test(
    "A changed time of day does not affect a measured duration, unless the system was restarted",
    arguments: [
      // Steady clock: 3 s have passed. Time of day: set forward, back, not at all.
      (Int64(1_000), true, 3), (-1_000, true, 3), (0, true, 3),
      // After a restart the steady clock starts again, and only the time of day is left.
      (4, false, 7), (-1_000, false, 0),
    ])
  func jumps(secondsSet: Int64, isSameBoot: Bool, passed: Int64) {
    let second: Int64 = 1_000_000_000
    let then = BootClock.Instant(timeOfDay: 100 * second, timeSinceBoot: 50 * second)
    let now = BootClock.Instant(timeOfDay: (103 + secondsSet) * second, timeSinceBoot: 53 * second)
    #expect(now.duration(since: then, isSameBoot: isSameBoot) == .seconds(passed))
  }

  @Test(
    "A recorded start time is converted by the current setting of the clock",
    arguments: [(0, 100), (-3_600, -3_500), (1_000_000, 1_000_100)] as [(Int64, Int64)])
  func start(secondsSet: Int64, start: Int64) {
    let second: Int64 = 1_000_000_000
    let then = BootClock.Instant(timeOfDay: 100 * second, timeSinceBoot: 50 * second)
    let now = BootClock.Instant(
      timeOfDay: (110 + secondsSet) * second + 1_000, timeSinceBoot: 60 * second)
    let restored = then.timeOfDay(asOf: now)
    #expect(abs(restored - start * second) <= 1_000)
  }

  @Test("The boot clock names the system's boot and does not run backwards")
  func now() {
    #expect(!BootClock.bootID.isEmpty)
    let first = BootClock.now
    #expect(BootClock.now.duration(since: first, isSameBoot: true) >= .zero)
  }
}
