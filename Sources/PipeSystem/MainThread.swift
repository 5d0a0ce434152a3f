import PipeSupport

/// Runs a task, and what it awaits, on the thread that waits for it: what blocks in it keeps no other task
/// from running, and no thread is started before the task starts one.
package final class MainThread: TaskExecutor {
  private let jobs = Locked<[UnownedJob]>([])
  /// Signalled for each job, and for the end.
  private let hasTurn = Semaphore()

  /// Runs an operation on this thread until it has returned.
  package static func run<Value: Sendable>(
    _ operation: sending @escaping () async -> Value
  ) -> Value {
    let thread = MainThread()
    let outcome = Locked<Value?>(nil)
    Task(executorPreference: thread) {
      let value = await operation()
      outcome.withLock { $0 = value }
      thread.hasTurn.signal()
    }
    while true {
      thread.hasTurn.wait()
      let job = thread.jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      job?.runSynchronously(on: thread.asUnownedTaskExecutor())
      if let value = outcome.withLock({ $0 }) { return value }
    }
  }

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
    hasTurn.signal()
  }
}
