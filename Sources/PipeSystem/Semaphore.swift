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
}

/// Joins synchronous programs and asynchronous calls.
package enum Blocking {
  /// Runs an operation and blocks this thread, which no task may be using, until it is done.
  package static func run<Value: Sendable>(
    _ operation: @escaping @Sendable () async -> Value
  ) -> Value {
    let outcome = Outcome<Value>()
    let done = Semaphore()
    Task {
      outcome.value = await operation()
      done.signal()
    }
    done.wait()
    return outcome.value!
  }

  /// Runs an operation that may throw and blocks this thread, which no task may be using, until
  /// it is done.
  package static func attempt<Value: Sendable>(
    _ operation: @escaping @Sendable () async throws -> Value
  ) throws -> Value {
    try run { () -> Result<Value, any Error> in
      do { return .success(try await operation()) } catch { return .failure(error) }
    }.get()
  }

  // Written before the semaphore is signalled, read after it was waited for.
  private final class Outcome<Value>: @unchecked Sendable {
    var value: Value?
  }
}
