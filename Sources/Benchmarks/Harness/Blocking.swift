import PipeRuntime

/// Joins measurements, which block their thread, and asynchronous calls.
enum Blocking {
  /// Runs an operation and blocks this thread, which no task may be using, until it is done.
  static func run<Value: Sendable, Failure>(
    _ operation: @escaping @Sendable () async throws(Failure) -> Value
  ) throws(Failure) -> Value {
    let outcome = Locked<Result<Value, Failure>?>(nil)
    let done = Semaphore()
    Task {
      let result: Result<Value, Failure>
      do throws(Failure) {
        result = .success(try await operation())
      } catch {
        result = .failure(error)
      }
      outcome.withLock { $0 = result }
      done.signal()
    }
    while true {
      done.wait()
      if let result = outcome.withLock({ $0 }) { return try result.get() }
    }
  }
}
