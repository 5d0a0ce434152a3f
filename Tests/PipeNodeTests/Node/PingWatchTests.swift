import PipeNode
import Testing

@Suite("Missing pings")
struct PingWatchTests {
  private let second: Int64 = 1_000_000_000

  @Test(
    "Pings are missed after two and a half intervals, then at growing intervals until one comes")
  func missed() {
    var watch = PingWatch()
    watch.heard(at: 0, interval: .seconds(1))
    let missed = (0..<200).map { Int64($0) * second / 2 }.filter { watch.isSilent(at: $0) }
    #expect(missed.map { $0 / (second / 2) } == [5, 15, 35, 75, 135, 195])
    #expect(watch.silences == 6)
    watch.heard(at: 100 * second, interval: .seconds(1))
    #expect(watch.silences == 0)
    #expect(watch.due == 102 * second + second / 2)
    let looks = [102, 103].map { watch.isSilent(at: $0 * second) }
    #expect(looks == [false, true])
  }

  @Test("A node that was suspended misses pings only if none has come by its next check")
  func late() {
    var watch = PingWatch()
    watch.heard(at: 0, interval: .seconds(1))
    let looks = [60, 61].map { watch.isSilent(at: $0 * second) }
    #expect(looks == [false, true])
    watch.heard(at: 62 * second, interval: .seconds(1))
    let early = watch.isSilent(at: 90 * second)
    watch.heard(at: 90 * second, interval: .seconds(1))
    let next = watch.isSilent(at: 91 * second)
    #expect(!early && !next)
  }

  @Test("Regular pings are not missed")
  func steady() {
    var watch = PingWatch()
    for beat in 0..<100 {
      watch.heard(at: Int64(beat) * second, interval: .seconds(1))
      let isSilent = watch.isSilent(at: Int64(beat + 1) * second)
      #expect(!isSilent)
    }
  }
}
