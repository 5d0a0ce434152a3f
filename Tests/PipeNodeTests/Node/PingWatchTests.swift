import PipeNode
import Testing

@Suite("Missing pings")
struct PingWatchTests {
  private let second: Int64 = 1_000_000_000

  @Test(
    "Pings count as missed after two and a half intervals, then at growing intervals")
  func missed() {
    var watch = PingWatch()
    watch.recordPing(at: 0, interval: .seconds(1))
    let missed = (0..<200).map { Int64($0) * second / 2 }.filter { watch.detectMissedPing(at: $0) }
    #expect(missed.map { $0 / (second / 2) } == [5, 15, 35, 75, 135, 195])
    #expect(watch.missedPings == 6)
    watch.recordPing(at: 100 * second, interval: .seconds(1))
    #expect(watch.missedPings == 0)
    #expect(watch.deadline == 102 * second + second / 2)
    let looks = [102, 103].map { watch.detectMissedPing(at: $0 * second) }
    #expect(looks == [false, true])
  }

  @Test("After a suspension, pings count as missed only if none arrives before the next check")
  func late() {
    var watch = PingWatch()
    watch.recordPing(at: 0, interval: .seconds(1))
    let looks = [60, 61].map { watch.detectMissedPing(at: $0 * second) }
    #expect(looks == [false, true])
    watch.recordPing(at: 62 * second, interval: .seconds(1))
    let early = watch.detectMissedPing(at: 90 * second)
    watch.recordPing(at: 90 * second, interval: .seconds(1))
    let next = watch.detectMissedPing(at: 91 * second)
    #expect(!early && !next)
  }

  @Test("Regular pings are not missed")
  func steady() {
    var watch = PingWatch()
    for beat in 0..<100 {
      watch.recordPing(at: Int64(beat) * second, interval: .seconds(1))
      let detectMissedPing = watch.detectMissedPing(at: Int64(beat + 1) * second)
      #expect(!detectMissedPing)
    }
  }
}
