import PipeRuntime
import Testing

@Suite("The timers of a loop")
struct TimerQueueTests {
  private let start: Int64 = 5_000_000_000

  @Test("are due in the order of their instants, those of one instant as they were made")
  func order() {
    var timers = TimerQueue()
    var fired: [String] = []
    _ = timers.schedule(at: start + 2_000_000_000) { fired.append("late") }
    _ = timers.schedule(at: start + 1_000_000_000) { fired.append("first") }
    _ = timers.schedule(at: start + 1_000_000_000) { fired.append("second") }
    for work in timers.due(at: start + 1_500_000_000) { work() }
    #expect(fired == ["first", "second"])
    for work in timers.due(at: start + 2_000_000_000) { work() }
    #expect(fired == ["first", "second", "late"])
    #expect(timers.due(at: start + 9_000_000_000).isEmpty)
  }

  @Test("a cancelled one is never due")
  func cancel() {
    var timers = TimerQueue()
    let id = timers.schedule(at: start + 1_000_000_000) {}
    _ = timers.schedule(at: start + 2_000_000_000) {}
    timers.cancel(id)
    timers.cancel(id)
    #expect(timers.due(at: start + 1_000_000_000).isEmpty)
    #expect(timers.due(at: start + 2_000_000_000).count == 1)
  }

  @Test(
    "the wait is rounded up, so that a loop does not wake too early",
    arguments: [
      (0, 0), (1, 1), (5_000_000, 5), (5_000_001, 6), (-3_000_000_000, 0),
      (100_000_000_000_000, 3_600_000),
    ])
  func wait(nanoseconds: Int64, milliseconds: Int) {
    var timers = TimerQueue()
    #expect(timers.millisecondsUntilNext(from: start) == -1)
    _ = timers.schedule(at: start + nanoseconds) {}
    #expect(timers.millisecondsUntilNext(from: start) == milliseconds)
  }
}
