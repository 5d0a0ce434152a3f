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
