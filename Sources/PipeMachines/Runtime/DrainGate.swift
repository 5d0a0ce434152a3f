import PipeSupport
import Synchronization

/// Decides which caller takes the steps of a ``MachineRun``, and which input comes next.
///
/// The type is not generic, and is separate from the queues whose inputs it counts. That makes the
/// path through it several times faster than a path through a generic mailbox. While no input is
/// queued, the path needs only one atomic word.
@usableFromInline
final class DrainGate: Sendable {
  enum Next {
    case post
    case send
    case receive
    case stop
    /// The drainer's budget is spent, so another task must continue to drain.
    case handOver
    /// The caller is no longer the drainer.
    case idle
  }

  /// The values of the gate's atomic word.
  @usableFromInline
  enum Word {
    /// There is no drainer, and nothing is queued.
    @usableFromInline static let idle: UInt8 = 0
    /// A sender processes its own event; nothing is queued.
    @usableFromInline static let quick: UInt8 = 1
    /// Any other situation. The state behind the lock describes it.
    static let locked: UInt8 = 2
  }

  private struct State {
    /// The number of inputs from the engine's own tasks. They can be processed at any time.
    var posts = 0
    /// The number of events from outside. They are processed when the engine can take input.
    var sends = 0
    /// Whether a pipe has an event. The event is processed when the engine can take input.
    var hasReceived = false
    var prefersSends = false
    /// Whether there is a drainer. The drainer processes all new input.
    var isDraining = true
    var isFinished = false
    var isStopped = false

    mutating func begin() -> Bool {
      defer { isDraining = true }
      return !isDraining
    }
  }

  @usableFromInline let word = Atomic<UInt8>(Word.locked)
  private let state = Locked(State())

  // Each of these functions notes an input, and makes the caller the drainer if there is none.
  func posted() -> Bool { enter { $0.posts += 1 } }
  func sent() -> Bool { enter { $0.sends += 1 } }
  func received() -> Bool { enter { $0.hasReceived = true } }
  func finished() -> Bool { enter { $0.isFinished = true } }

  private func enter(_ note: (inout State) -> Void) -> Bool {
    state.withLock { state in
      let former = word.exchange(Word.locked, ordering: .acquiringAndReleasing)
      // The sender on the fast path detects the changed word, and continues as the drainer.
      if former == Word.quick { state.isDraining = true }
      note(&state)
      return state.begin()
    }
  }

  /// Makes the caller the drainer for one event, if there is no drainer and nothing is queued.
  @inlinable
  func beginFastPath() -> Bool {
    word.compareExchange(
      expected: Word.idle, desired: Word.quick, successOrdering: .acquiring,
      failureOrdering: .relaxed
    ).exchanged
  }

  /// Ends the fast path that ``beginFastPath()`` began. If this function returns `false`, the
  /// caller must drain.
  @inlinable
  func endFastPath() -> Bool {
    word.compareExchange(
      expected: Word.quick, desired: Word.idle, successOrdering: .releasing,
      failureOrdering: .acquiring
    ).exchanged
  }

  /// Notes, after an event was taken from a pipe, that the pipes may have further events.
  func noteRemainingEvents() { state.withLock { $0.hasReceived = true } }

  /// Returns what the drainer must do next.
  func next(acceptsInput: Bool, isBudgetSpent: Bool) -> Next {
    state.withLock { state in
      if state.isFinished && !state.isStopped {
        state.isStopped = true
        state.hasReceived = false
        return .stop
      }
      let canSend = state.sends > 0 && (acceptsInput || state.isStopped)
      let canReceive = state.hasReceived && acceptsInput && !state.isStopped
      guard state.posts > 0 || canSend || canReceive else {
        state.isDraining = false
        if !state.isFinished && state.sends == 0 && !state.hasReceived {
          word.store(Word.idle, ordering: .releasing)
        }
        return .idle
      }
      if isBudgetSpent { return .handOver }
      if state.posts > 0 {
        state.posts -= 1
        return .post
      }
      // Alternate, so that neither a busy pipe nor a busy sender starves the other.
      state.prefersSends.toggle()
      if canReceive && !(canSend && state.prefersSends) {
        state.hasReceived = false
        return .receive
      }
      state.sends -= 1
      return .send
    }
  }
}
