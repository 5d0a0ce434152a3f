import Glibc
import PipeSupport

/// Polling for conditions that neither a descriptor nor a blocking call reports.
package enum Polling {
  /// Calls `ask` repeatedly until it returns an answer or the deadline passes. Blocks this thread.
  /// Calls `ask` at least once.
  /// - Returns: The answer; `nil` if there was none before the deadline.
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

/// A POSIX semaphore. Only for threads outside the pool of the default executor, because a wait
/// blocks the thread.
package final class Semaphore: Sendable {
  // A sem_t may be shared between threads.
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

  /// Waits until the semaphore is signalled or the deadline passes.
  /// - Returns: Whether the semaphore was signalled in time.
  package func wait(until deadline: ContinuousClock.Instant) -> Bool {
    Polling.wait(every: .milliseconds(2), until: deadline) {
      sem_trywait(semaphore) == 0 ? true : nil
    } == true
  }
}
