import PipeSupport
import Synchronization

/// Decides which caller takes the steps of a ``MachineRun``, and which input comes next.
///
/// The gate is not generic, and is separate from the queues whose inputs it counts. A send through
/// the gate is therefore several times faster than through a generic mailbox. While no input is
/// queued, a send accesses only one atomic word.
@usableFromInline
final class DrainGate: Sendable {
  enum NextAction {
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
    /// Any other situation. Only the state behind the lock shows whether input is queued and
    /// whether there is a drainer.
    static let locked: UInt8 = 2
  }

  private struct State {
    /// The number of inputs from the engine's own tasks. These inputs can be processed at any time.
    var pendingPostCount = 0
    /// The number of events from outside. These events are processed when the engine accepts input.
    var pendingSendCount = 0
    /// Whether a pipe has an event. The event is processed when the engine accepts input.
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

  // Each of these functions records an input. If there is no drainer, the caller becomes the
  // drainer, and the function returns `true`.
  func recordPost() -> Bool { enter { $0.pendingPostCount += 1 } }
  func recordSend() -> Bool { enter { $0.pendingSendCount += 1 } }
  func recordReceipt() -> Bool { enter { $0.hasReceived = true } }
  func recordFinish() -> Bool { enter { $0.isFinished = true } }

  private func enter(_ note: (inout State) -> Void) -> Bool {
    state.withLock { state in
      let former = word.exchange(Word.locked, ordering: .acquiringAndReleasing)
      // The sender that is on the fast path will detect that the word has changed, and will
      // continue as the drainer.
      if former == Word.quick { state.isDraining = true }
      note(&state)
      return state.begin()
    }
  }

  /// Makes the caller the drainer for one event, if there is no drainer and nothing is queued.
  /// Returns whether the caller has become the drainer.
  @inlinable
  func beginFastPath() -> Bool {
    word.compareExchange(
      expected: Word.idle, desired: Word.quick, successOrdering: .acquiring,
      failureOrdering: .relaxed
    ).exchanged
  }

  /// Ends the fast path that ``beginFastPath()`` began. If this function returns `false`, input was
  /// queued in the meantime, and the caller must drain.
  @inlinable
  func endFastPath() -> Bool {
    word.compareExchange(
      expected: Word.quick, desired: Word.idle, successOrdering: .releasing,
      failureOrdering: .acquiring
    ).exchanged
  }

  /// Records that the pipes may have further events, after an event was removed from a pipe.
  func noteRemainingEvents() { state.withLock { $0.hasReceived = true } }

  /// Returns the drainer's next action, and counts the input of that action as processed.
  /// - Parameters:
  ///   - acceptsInput: Whether the engine can process an event now.
  ///   - isBudgetSpent: Whether the drainer has processed its maximum number of inputs.
  func nextAction(acceptsInput: Bool, isBudgetSpent: Bool) -> NextAction {
    state.withLock { state in
      if state.isFinished && !state.isStopped {
        state.isStopped = true
        state.hasReceived = false
        return .stop
      }
      let canSend = state.pendingSendCount > 0 && (acceptsInput || state.isStopped)
      let canReceive = state.hasReceived && acceptsInput && !state.isStopped
      guard state.pendingPostCount > 0 || canSend || canReceive else {
        state.isDraining = false
        if !state.isFinished && state.pendingSendCount == 0 && !state.hasReceived {
          word.store(Word.idle, ordering: .releasing)
        }
        return .idle
      }
      if isBudgetSpent { return .handOver }
      if state.pendingPostCount > 0 {
        state.pendingPostCount -= 1
        return .post
      }
      // Alternates between pipes and senders, so that neither starves the other.
      state.prefersSends.toggle()
      if canReceive && !(canSend && state.prefersSends) {
        state.hasReceived = false
        return .receive
      }
      state.pendingSendCount -= 1
      return .send
    }
  }
}
