import Glibc

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
