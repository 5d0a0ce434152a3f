import PipeTransport

/// How a client's connection to the orchestrator goes, and what follows from that.
///
/// On one host it breaks where the orchestrator ends. From another host it may come again.
package struct ControlConnection {
  /// What is to be done.
  package enum Action: Hashable {
    case nothing
    /// It has broken, and may come again.
    case waitForIt
    /// It has come again: what was asked before may be lost.
    case askAgain
    case end(Ending)
  }

  /// Why it does not come any more.
  package enum Ending: Hashable { case gone, otherKey, turnedAway }

  private enum State: Hashable {
    case connecting(Attempts)
    case connected
    case broken(Attempts)
    case ended
  }

  /// Those that the other end has broken off in the handshake, one after the other.
  private struct Attempts: Hashable {
    var openedAt: ContinuousClock.Instant?
    var refused = 0

    /// Takes an attempt that has failed; returns whether that is no accident.
    mutating func isRefused(at now: ContinuousClock.Instant) -> Bool {
      guard let openedAt, now - openedAt < refusalTime else {
        refused = 0
        return false
      }
      refused += 1
      return refused >= refusals
    }
  }

  private let isRemote: Bool
  private var state = State.connecting(Attempts())

  /// Who breaks off a handshake sooner than that has another key; who says nothing is waited for by libzmq for 2 s.
  private static let refusalTime: Duration = .seconds(1)
  /// Some may be the network's, or libzmq's: whom it is not to let in now it keeps waiting, but breaks off where that is
  /// decided at once. All of these are over in a second.
  private static let refusals = 8

  package init(isRemote: Bool) { self.isRemote = isRemote }

  /// Whether it was there at some time.
  package var hasMet: Bool { if case .connecting = state { false } else { true } }

  /// Whether it was never there, and somebody has begun to answer.
  package var hasBegun: Bool {
    if case .connecting(let attempts) = state { attempts.openedAt != nil } else { false }
  }

  /// Takes what has become of an attempt to connect.
  package mutating func take(
    _ attempt: ConnectionMonitor.Attempt, at now: ContinuousClock.Instant
  ) -> Action {
    switch (state, attempt) {
    case (.ended, _): return .nothing
    case (.connecting, .event(.connected)):
      state = .connected
      return .nothing
    case (.broken, .event(.connected)):
      state = .connected
      return .askAgain
    case (.connected, .event(.disconnected)):
      guard isRemote else { return end(.gone) }
      state = .broken(Attempts())
      return .waitForIt
    case (.connecting, .turnedAway): return end(.turnedAway)
    case (.broken, .turnedAway): return end(.gone)
    case (.connecting(var attempts), .opened):
      attempts.openedAt = now
      state = .connecting(attempts)
    case (.broken(var attempts), .opened):
      attempts.openedAt = now
      state = .broken(attempts)
    case (.connecting(var attempts), .failed):
      if attempts.isRefused(at: now) { return end(.otherKey) }
      state = .connecting(attempts)
    case (.broken(var attempts), .failed):
      // The topology has ended, and something else has its place.
      if attempts.isRefused(at: now) { return end(.gone) }
      state = .broken(attempts)
    case (.connecting, .event(.disconnected)), (.broken, .event(.disconnected)),
      (.connected, .event(.connected)), (.connected, .opened), (.connected, .failed),
      (.connected, .turnedAway):
      break
    }
    return .nothing
  }

  /// It is waited for no longer.
  package mutating func giveUp() -> Action {
    switch state {
    case .connecting, .broken: end(.gone)
    case .connected, .ended: .nothing
    }
  }

  private mutating func end(_ ending: Ending) -> Action {
    state = .ended
    return .end(ending)
  }
}
