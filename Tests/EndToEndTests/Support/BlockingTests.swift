import Glibc
import Synchronization
import Testing

/// Runs tests that block their threads on separate threads, which live as long as the process.
///
/// Such tests block while they wait for processes. On the few threads of Swift's pool, they would
/// block all other tests.
struct BlockingTests: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    try await withTaskExecutorPreference(ThreadExecutor.shared) { try await function() }
  }
}

extension Trait where Self == BlockingTests {
  /// Marks tests that block their thread.
  static var blocking: Self { BlockingTests() }
}

/// Runs jobs on a few threads that never end.
private final class ThreadExecutor: TaskExecutor {
  static let shared = ThreadExecutor(threads: 4)

  private let jobs = Mutex<[UnownedJob]>([])
  // Any number of threads can use a POSIX semaphore at the same time.
  nonisolated(unsafe) private let available = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  init(threads: Int) {
    sem_init(available, 0, 0)
    for _ in 0..<threads {
      var thread = pthread_t()
      let executor = Unmanaged.passRetained(self)
      pthread_create(
        &thread, nil,
        { pointer in
          Unmanaged<ThreadExecutor>.fromOpaque(pointer!).takeRetainedValue().work()
        }, executor.toOpaque())
      pthread_detach(thread)
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
    sem_post(available)
  }

  private func work() -> Never {
    while true {
      guard sem_wait(available) == 0 else { continue }
      let job = jobs.withLock { $0.removeFirst() }
      job.runSynchronously(on: asUnownedTaskExecutor())
    }
  }
}
