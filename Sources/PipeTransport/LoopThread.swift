import CProcess
import Glibc
import PipeSupport
import PipeSystem

/// A thread of its own that runs a poll loop: for programs whose main thread is not the loop's.
package final class LoopThread: Sendable {
  /// Posts work to the loop.
  package let handle: LoopHandle
  private let identifier: Locked<pthread_t?>

  /// Starts the thread. `setUp` runs on it first, with the loop; what it makes stays there.
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

  /// Waits for the thread, which must have been told to stop its loop. Called on that thread, it leaves
  /// the thread to end by itself.
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
    /// The thread that runs the loop; it needs not be woken.
    var thread: pthread_t?
    var hasEnded = false
  }

  let descriptor: Int32
  private let state = Locked(State())

  init() { descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC)) }

  deinit { close(descriptor) }

  /// Runs the work on the loop's thread, in the order posted; at once where that has ended.
  package func post(_ work: @escaping @Sendable () -> Void) {
    let (isAsleep, hasEnded) = state.withLock { state in
      if !state.hasEnded { state.posted.append(work) }
      let isAsleep = state.posted.count == 1 && state.thread != pthread_self()
      return (isAsleep, state.hasEnded)
    }
    if hasEnded { work() } else if isAsleep { _ = eventfd_write(descriptor, 1) }
  }

  /// This thread runs the loop from now on.
  func begin() { state.withLock { $0.thread = pthread_self() } }

  /// Whether work is posted, of which nothing tells where the loop's own thread did it.
  var hasPosted: Bool { state.withLock { !$0.posted.isEmpty } }

  /// Runs what is still posted. The loop must have stopped for good.
  package func end() {
    let rest = state.withLock { state in
      state.hasEnded = true
      defer { state.posted = [] }
      return state.posted
    }
    for work in rest { work() }
  }

  /// Takes what has woken the loop.
  func awoke() {
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

/// A value that one loop's thread uses and others only pass on.
// The owner upholds it: `value` is read in closures posted to that loop, and nowhere else.
package struct LoopOwned<Value>: @unchecked Sendable {
  package let value: Value
  package init(_ value: Value) { self.value = value }
}
