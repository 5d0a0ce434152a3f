import PipeRuntime
import Testing

@Suite("The timers of a loop")
struct TimerQueueTests {
  private let start = ContinuousClock.now

  @Test("are due in the order of their instants, those of one instant as they were made")
  func order() {
    var timers = TimerQueue()
    var fired: [String] = []
    _ = timers.schedule(at: start + .seconds(2)) { fired.append("late") }
    _ = timers.schedule(at: start + .seconds(1)) { fired.append("first") }
    _ = timers.schedule(at: start + .seconds(1)) { fired.append("second") }
    for work in timers.due(at: start + .milliseconds(1_500)) { work() }
    #expect(fired == ["first", "second"])
    for work in timers.due(at: start + .seconds(2)) { work() }
    #expect(fired == ["first", "second", "late"])
    #expect(timers.due(at: start + .seconds(9)).isEmpty)
  }

  @Test("a cancelled one is never due")
  func cancel() {
    var timers = TimerQueue()
    let id = timers.schedule(at: start + .seconds(1)) {}
    _ = timers.schedule(at: start + .seconds(2)) {}
    timers.cancel(id)
    #expect(timers.due(at: start + .seconds(1)).isEmpty)
    #expect(timers.due(at: start + .seconds(2)).count == 1)
  }

  @Test(
    "the wait is rounded up, so that a loop does not wake too early",
    arguments: [
      (Duration.zero, 0), (.microseconds(1), 1), (.milliseconds(5), 5),
      (.microseconds(5_001), 6), (.seconds(-3), 0), (.seconds(100_000), 3_600_000),
    ])
  func wait(duration: Duration, milliseconds: Int) {
    var timers = TimerQueue()
    #expect(timers.millisecondsUntilNext(from: start) == -1)
    _ = timers.schedule(at: start + duration) {}
    #expect(timers.millisecondsUntilNext(from: start) == milliseconds)
  }
}
