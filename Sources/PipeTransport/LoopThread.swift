import CProcess
import Glibc
import PipeSupport
import PipeSystem

/// A thread that runs a poll loop, for programs that use their main thread for other work.
package final class LoopThread: Sendable {
  /// The handle with which other threads post work to the loop.
  package let handle: LoopHandle
  private let identifier: Locked<pthread_t?>

  /// Starts the thread, which calls `setUp` and then runs the loop. Objects that `setUp` creates
  /// must stay on this thread.
  package init(_ setUp: @escaping @Sendable (PollLoop) -> Void) {
    let started = Locked<LoopHandle?>(nil)
    let ready = Semaphore()
    let box = Unmanaged.passRetained(
      ThreadBody {
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
        Unmanaged<ThreadBody>.fromOpaque(argument!).takeRetainedValue().body()
        return nil
      }, box.toOpaque())
    precondition(code == 0, "pthread_create: errno \(code)")
    ready.wait()
    handle = started.withLock { $0! }
    identifier = Locked(thread)
  }

  /// Waits for the thread to end. Stop the loop first. If the loop's own thread makes this call,
  /// the thread is detached instead.
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

  private final class ThreadBody {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
  }
}

/// A handle with which any thread posts work to a poll loop and wakes the loop.
package final class LoopHandle: Sendable {
  private struct State {
    var postedWork: [@Sendable () -> Void] = []
    /// The thread that runs the loop. Work that this thread itself posts does not have to wake the
    /// loop.
    var thread: pthread_t?
    var hasEnded = false
  }

  let descriptor: Int32
  private let state = Locked(State())

  init() { descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC)) }

  deinit { close(descriptor) }

  /// Queues work for the loop's thread, which runs work in the order of the calls. If the loop has
  /// ended, the work runs at once on the caller's thread.
  package func post(_ work: @escaping @Sendable () -> Void) {
    let (isAsleep, hasEnded) = state.withLock { state in
      if !state.hasEnded { state.postedWork.append(work) }
      let isAsleep = state.postedWork.count == 1 && state.thread != pthread_self()
      return (isAsleep, state.hasEnded)
    }
    if hasEnded { work() } else if isAsleep { _ = eventfd_write(descriptor, 1) }
  }

  /// Records that the current thread runs the loop.
  func begin() { state.withLock { $0.thread = pthread_self() } }

  /// Whether posted work is pending. The loop checks this property, because work posted by its own
  /// thread does not make the descriptor readable.
  var hasPostedWork: Bool { state.withLock { !$0.postedWork.isEmpty } }

  /// Marks the loop as ended and runs all pending work. The loop must have stopped, and must not
  /// run again.
  package func end() {
    let rest = state.withLock { state in
      state.hasEnded = true
      defer { state.postedWork = [] }
      return state.postedWork
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
      defer { state.postedWork = [] }
      return state.postedWork
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

/// A value that only the thread of one loop uses. Other threads may pass the value on without
/// reading it.
// `Sendable` is unchecked: `value` is read only in closures that run on the loop's thread.
package struct LoopOwned<Value>: @unchecked Sendable {
  package let value: Value
  package init(_ value: Value) { self.value = value }
}
