import PipeSupport
import Testing

@Suite("The back-off before a restart")
struct BackoffTests {
  @Test(
    "Pauses before restarts double up to the maximum and never overflow",
    arguments: [
      (0, 200), (1, 400), (2, 800), (3, 1600), (4, 3200), (5, 6400), (6, 10000), (7, 10000),
      (1_000_000, 10000), (-1, 200),
    ])
  func doubles(attempt: Int, milliseconds: Int) {
    #expect(Backoff().pause(before: attempt) == .milliseconds(milliseconds))
  }

  @Test("An initial pause above the maximum is the maximum, and a zero pause stays zero")
  func bounds() {
    let long = Backoff(initial: .seconds(60), max: .seconds(1))
    #expect(long.pause(before: 0) == .seconds(1))
    #expect(Backoff(initial: .zero).pause(before: 1_000_000) == .zero)
  }

  @Test("Jitter only shortens a pause before a restart, by at most its fraction")
  func jitter() {
    var generator = SystemRandomNumberGenerator()
    let backoff = Backoff(initial: .seconds(1), max: .seconds(8), jitter: 0.5)
    for attempt in 0..<100 {
      let whole = backoff.pause(before: attempt)
      let pause = backoff.pause(before: attempt, using: &generator)
      #expect(pause <= whole && pause >= whole / 2)
    }
  }
}
