import Glibc
import PipeSupport

/// Waits for what nothing tells of: no descriptor becomes readable, and no call returns.
package enum Polling {
  /// Asks until there is an answer, and blocks this thread so long.
  /// - Returns: The answer; `nil` where there was none in time. Asked once at least.
  package static func wait<Answer, Failure>(
    every pause: Duration, until deadline: ContinuousClock.Instant,
    _ ask: () throws(Failure) -> Answer?
  ) throws(Failure) -> Answer? {
    while true {
      if let answer = try ask() { return answer }
      guard ContinuousClock.now < deadline else { return nil }
      usleep(useconds_t(clamping: pause.clampedNanoseconds / 1_000))
    }
  }
}

/// A POSIX semaphore: for threads that are not tasks.
package final class Semaphore: Sendable {
  // sem_t is made for sharing between threads.
  nonisolated(unsafe) private let semaphore: UnsafeMutablePointer<sem_t>

  package init() {
    semaphore = .allocate(capacity: 1)
    sem_init(semaphore, 0, 0)
  }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  package func signal() { sem_post(semaphore) }

  package func wait() { while sem_wait(semaphore) != 0 {} }

  /// - Returns: Whether it was signalled in time.
  package func wait(until deadline: ContinuousClock.Instant) -> Bool {
    Polling.wait(every: .milliseconds(2), until: deadline) {
      sem_trywait(semaphore) == 0 ? true : nil
    } == true
  }
}
