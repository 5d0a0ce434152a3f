import PipeRuntime
import Testing

@Suite("A sender that nobody answers")
struct PipeReminderTests {
  /// The ticks at which it announces itself, of so many.
  private func announcements(_ count: Int, _ input: (Int) -> (Bool, UInt64)) -> [Int] {
    var reminder = PipeReminder()
    return (1...count).filter { tick in
      let (isWaiting, progress) = input(tick)
      return reminder.tick(isWaiting: isWaiting, progress: progress)
    }
  }

  @Test("announces itself again, ever less often")
  func waits() {
    #expect(announcements(200) { _ in (true, 0) } == [2, 6, 14, 30, 62, 94, 126, 158, 190])
  }

  @Test("does not while it is answered, or waits for nothing")
  func answered() {
    #expect(announcements(100) { (true, UInt64($0)) } == [])
    #expect(announcements(100) { _ in (false, 0) } == [])
  }

  @Test("begins anew once it was answered")
  func again() {
    #expect(announcements(12) { tick in (true, tick < 7 ? 0 : 1) } == [2, 6, 9])
  }
}
