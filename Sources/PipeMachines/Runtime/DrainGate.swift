import PipeSupport
import Synchronization

/// Decides who takes the steps of a ``MachineRun``, and what comes next.
///
/// Not generic, and apart from the queues it counts: that makes the way through it several times
/// faster than through a generic mailbox. While nothing waits, one atomic word is all of it.
@usableFromInline
final class DrainGate: Sendable {
  enum Next {
    case post
    case send
    case receive
    case stop
    /// Somebody else is to go on draining.
    case handOver
    /// The caller has ceased to be the drainer.
    case idle
  }

  /// What the atomic word says.
  @usableFromInline
  enum Word {
    /// Nobody drains, and nothing waits.
    @usableFromInline static let idle: UInt8 = 0
    /// A sender takes its own event; nothing waits.
    @usableFromInline static let quick: UInt8 = 1
    /// Whatever else: the state behind the lock tells.
    static let locked: UInt8 = 2
  }

  private struct State {
    /// Inputs from the engine's own tasks; taken at any time.
    var posts = 0
    /// Events from outside; taken when the engine can.
    var sends = 0
    /// A pipe has an event, also taken when the engine can.
    var hasReceived = false
    var favoursSends = false
    /// Somebody is draining, and will see whatever comes in.
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

  // Each of these tells of an input, and makes the caller the drainer if there is none.
  func posted() -> Bool { enter { $0.posts += 1 } }
  func sent() -> Bool { enter { $0.sends += 1 } }
  func received() -> Bool { enter { $0.hasReceived = true } }
  func finished() -> Bool { enter { $0.isFinished = true } }

  private func enter(_ note: (inout State) -> Void) -> Bool {
    state.withLock { state in
      let former = word.exchange(Word.locked, ordering: .acquiringAndReleasing)
      // The sender that is at it finds the word changed, and goes on as the drainer.
      if former == Word.quick { state.isDraining = true }
      note(&state)
      return state.begin()
    }
  }

  /// Makes the caller the drainer for one event, if there is none and nothing waits.
  @inlinable
  func beginQuickly() -> Bool {
    word.compareExchange(
      expected: Word.idle, desired: Word.quick, successOrdering: .acquiring,
      failureOrdering: .relaxed
    ).exchanged
  }

  /// Ends what ``beginQuickly()`` began; where that fails, the caller has to drain.
  @inlinable
  func endQuickly() -> Bool {
    word.compareExchange(
      expected: Word.quick, desired: Word.idle, successOrdering: .releasing,
      failureOrdering: .acquiring
    ).exchanged
  }

  /// Tells that the pipes may have more, after one event was taken.
  func mayReceiveMore() { state.withLock { $0.hasReceived = true } }

  /// What the drainer has to do next.
  func next(takesInput: Bool, isSpent: Bool) -> Next {
    state.withLock { state in
      if state.isFinished && !state.isStopped {
        state.isStopped = true
        state.hasReceived = false
        return .stop
      }
      let canSend = state.sends > 0 && (takesInput || state.isStopped)
      let canReceive = state.hasReceived && takesInput && !state.isStopped
      guard state.posts > 0 || canSend || canReceive else {
        state.isDraining = false
        if !state.isFinished && state.sends == 0 && !state.hasReceived {
          word.store(Word.idle, ordering: .releasing)
        }
        return .idle
      }
      if isSpent { return .handOver }
      if state.posts > 0 {
        state.posts -= 1
        return .post
      }
      // By turns, so that neither a busy pipe nor a busy sender keeps the other waiting.
      state.favoursSends.toggle()
      if canReceive && !(canSend && state.favoursSends) {
        state.hasReceived = false
        return .receive
      }
      state.sends -= 1
      return .send
    }
  }
}
