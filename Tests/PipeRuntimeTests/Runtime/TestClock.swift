import Synchronization

/// Time that a test moves.
final class TestClock: Clock, Sendable {
  struct Instant: InstantProtocol {
    var offset: Duration
    func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    func duration(to other: Instant) -> Duration { other.offset - offset }
    static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  private struct Waiting {
    var now = Instant(offset: .zero)
    var sleepers: [(until: Instant, resume: CheckedContinuation<Void, Never>)] = []
  }

  private let waiting = Mutex(Waiting())
  let slept = AsyncStream.makeStream(of: Duration.self)

  var now: Instant { waiting.withLock(\.now) }
  var minimumResolution: Duration { .zero }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    await withCheckedContinuation { continuation in
      waiting.withLock { $0.sleepers.append((deadline, continuation)) }
      slept.continuation.yield(deadline.offset)
    }
  }

  func advance(by duration: Duration) {
    let awake = waiting.withLock { waiting in
      waiting.now = waiting.now.advanced(by: duration)
      let now = waiting.now
      defer { waiting.sleepers.removeAll { $0.until <= now } }
      return waiting.sleepers.filter { $0.until <= now }
    }
    for sleeper in awake { sleeper.resume.resume() }
  }
}
