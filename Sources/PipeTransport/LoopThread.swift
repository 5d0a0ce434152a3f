import CProcess
import Glibc
import PipeSupport
import PipeSystem

/// A thread that runs a poll loop, for programs whose main thread does not.
package final class LoopThread: Sendable {
  /// Posts work to the loop.
  package let handle: LoopHandle
  private let identifier: Locked<pthread_t?>

  /// Starts the thread. It first calls `setUp` with the loop; objects created there stay on the thread.
  package init(_ setUp: @escaping @Sendable (PollLoop) -> Void) {
    let started = Locked<LoopHandle?>(nil)
    let ready = Semaphore()
    let box = Unmanaged.passRetained(
      Start {
        let loop = PollLoop()
        setUp(loop)
        started.withLock { $0 = loop.handle }
        ready.signal()
        loop.run()
        loop.handle.end()
      })
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue().body()
        return nil
      }, box.toOpaque())
    precondition(code == 0, "pthread_create: errno \(code)")
    ready.wait()
    handle = started.withLock { $0! }
    identifier = Locked(thread)
  }

  /// Waits for the thread to end. The caller must have stopped its loop. When called on that
  /// thread, detaches the thread instead of waiting.
  package func join() {
    guard
      let thread = identifier.withLock({ value in
        defer { value = nil }
        return value
      })
    else { return }
    if pthread_equal(thread, pthread_self()) != 0 {
      pthread_detach(thread)
    } else {
      pthread_join(thread, nil)
    }
  }

  private final class Start {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
  }
}

/// The part of a loop that other threads may hold: it queues work and wakes the loop.
package final class LoopHandle: Sendable {
  private struct State {
    var posted: [@Sendable () -> Void] = []
    /// The thread that runs the loop. Work that this thread posts need not wake the loop.
    var thread: pthread_t?
    var hasEnded = false
  }

  let descriptor: Int32
  private let state = Locked(State())

  init() { descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC)) }

  deinit { close(descriptor) }

  /// Runs the work on the loop's thread, in the order posted. Runs it at once if the loop has ended.
  package func post(_ work: @escaping @Sendable () -> Void) {
    let (isAsleep, hasEnded) = state.withLock { state in
      if !state.hasEnded { state.posted.append(work) }
      let isAsleep = state.posted.count == 1 && state.thread != pthread_self()
      return (isAsleep, state.hasEnded)
    }
    if hasEnded { work() } else if isAsleep { _ = eventfd_write(descriptor, 1) }
  }

  /// Records that the current thread runs the loop.
  func begin() { state.withLock { $0.thread = pthread_self() } }

  /// Whether posted work is pending. No descriptor signals work that the loop's own thread has posted.
  var hasPostedWork: Bool { state.withLock { !$0.posted.isEmpty } }

  /// Runs all pending work. The loop must have stopped for good.
  package func end() {
    let rest = state.withLock { state in
      state.hasEnded = true
      defer { state.posted = [] }
      return state.posted
    }
    for work in rest { work() }
  }

  /// Clears the wake-up signal and runs the posted work.
  func handleWakeUp() {
    var value: eventfd_t = 0
    _ = eventfd_read(descriptor, &value)
    runPosted()
  }

  func runPosted() {
    let work = state.withLock { state in
      defer { state.posted = [] }
      return state.posted
    }
    for item in work { item() }
  }
}

/// Runs tasks on a loop's thread.
package final class LoopExecutor: TaskExecutor {
  private let handle: LoopHandle

  package init(_ handle: LoopHandle) { self.handle = handle }

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    handle.post { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

/// A value that only one loop's thread uses. Other threads only pass it on.
// The owner ensures this: it reads `value` only in closures posted to that loop.
package struct LoopOwned<Value>: @unchecked Sendable {
  package let value: Value
  package init(_ value: Value) { self.value = value }
}
