import CProcess
import Glibc

/// The part of a loop that other threads may hold: it queues work and wakes the loop.
package final class LoopHandle: Sendable {
  private struct State {
    var posted: [@Sendable () -> Void] = []
    var hasEnded = false
  }

  let descriptor: Int32
  private let state = Locked(State())

  init() { descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC)) }

  deinit { close(descriptor) }

  /// Runs the work on the loop's thread, in the order posted; at once where that has ended.
  package func post(_ work: @escaping @Sendable () -> Void) {
    let (wasEmpty, hasEnded) = state.withLock { state in
      if !state.hasEnded { state.posted.append(work) }
      return (state.posted.count == 1, state.hasEnded)
    }
    if hasEnded { work() } else if wasEmpty { _ = eventfd_write(descriptor, 1) }
  }

  /// Runs what is still posted. The loop must have stopped for good.
  func end() {
    let rest = state.withLock { state in
      state.hasEnded = true
      defer { state.posted = [] }
      return state.posted
    }
    for work in rest { work() }
  }

  func runPosted() {
    var value: eventfd_t = 0
    _ = eventfd_read(descriptor, &value)
    let work = state.withLock { state in
      defer { state.posted = [] }
      return state.posted
    }
    for item in work { item() }
  }
}
