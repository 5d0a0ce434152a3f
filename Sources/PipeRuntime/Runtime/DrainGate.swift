import Synchronization

/// Decides who takes the steps of a ``MachineRun``, and what comes next.
///
/// Not generic, and apart from the queues it counts: that makes the way through it four times
/// faster than through a generic mailbox.
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

  private let state = Mutex(State())

  // Each of these tells of an input, and makes the caller the drainer if there is none.
  func posted() -> Bool {
    state.withLock {
      $0.posts += 1; return $0.begin()
    }
  }
  func sent() -> Bool {
    state.withLock {
      $0.sends += 1; return $0.begin()
    }
  }
  func received() -> Bool {
    state.withLock {
      $0.hasReceived = true; return $0.begin()
    }
  }
  func finished() -> Bool {
    state.withLock {
      $0.isFinished = true; return $0.begin()
    }
  }

  /// Makes the caller the drainer if there is none and nothing waits.
  func beginIfIdle() -> Bool {
    state.withLock { state in
      guard state.posts == 0, state.sends == 0, !state.hasReceived, !state.isFinished else {
        return false
      }
      return state.begin()
    }
  }

  /// Tells of an event from outside that the drainer itself has put in the queue.
  func sentByDrainer() { state.withLock { $0.sends += 1 } }

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
