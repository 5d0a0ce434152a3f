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

  @Test("the next one is told, whichever was made first")
  func next() {
    var timers = TimerQueue()
    #expect(timers.next == nil)
    _ = timers.schedule(at: start + 2) {}
    let earlier = timers.schedule(at: start + 1) {}
    #expect(timers.next == start + 1)
    timers.cancel(earlier)
    #expect(timers.next == start + 2)
  }
}
