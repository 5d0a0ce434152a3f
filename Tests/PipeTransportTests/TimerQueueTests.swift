import PipeTransport
import Testing

@Suite("The timers of a loop")
struct TimerQueueTests {
  private let start: Int64 = 5_000_000_000

  @Test("Timers are due in the order of their times, and at equal times in the order of creation")
  func order() {
    var timers = TimerQueue()
    var fired: [String] = []
    _ = timers.schedule(at: start + 2_000_000_000) { fired.append("late") }
    _ = timers.schedule(at: start + 1_000_000_000) { fired.append("first") }
    _ = timers.schedule(at: start + 1_000_000_000) { fired.append("second") }
    while let work = timers.takeDue(at: start + 1_500_000_000, through: timers.newestNumber) {
      work()
    }
    #expect(fired == ["first", "second"])
    while let work = timers.takeDue(at: start + 2_000_000_000, through: timers.newestNumber) {
      work()
    }
    #expect(fired == ["first", "second", "late"])
    #expect(timers.takeDue(at: start + 9_000_000_000, through: timers.newestNumber) == nil)
  }

  @Test("A cancelled timer is never due")
  func cancel() {
    var timers = TimerQueue()
    let id = timers.schedule(at: start + 1_000_000_000) {}
    _ = timers.schedule(at: start + 2_000_000_000) {}
    timers.cancel(id)
    timers.cancel(id)
    #expect(timers.takeDue(at: start + 1_000_000_000, through: timers.newestNumber) == nil)
    #expect(timers.takeDue(at: start + 2_000_000_000, through: timers.newestNumber) != nil)
    #expect(timers.nextDueTime == nil)
  }

  @Test("The next due time is the earliest, whichever timer was created first")
  func next() {
    var timers = TimerQueue()
    #expect(timers.nextDueTime == nil)
    _ = timers.schedule(at: start + 2) {}
    let earlier = timers.schedule(at: start + 1) {}
    #expect(timers.nextDueTime == start + 1)
    timers.cancel(earlier)
    #expect(timers.nextDueTime == start + 2)
  }

  @Test("A timer scheduled during a turn waits for the next turn")
  func later() {
    var timers = TimerQueue()
    _ = timers.schedule(at: start) {}
    let newest = timers.newestNumber
    #expect(timers.takeDue(at: start + 9, through: newest) != nil)
    _ = timers.schedule(at: start + 1) {}
    #expect(timers.takeDue(at: start + 9, through: newest) == nil)
    #expect(timers.takeDue(at: start + 9, through: timers.newestNumber) != nil)
  }
}
