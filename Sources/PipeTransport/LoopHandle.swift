import CProcess
import Glibc
import PipeSupport

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
