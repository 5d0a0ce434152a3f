/// Decides what to do about a connected peer that owes an answer and is silent.
///
/// The last message of either side may have been lost with a connection that was ending, so this
/// end asks once more. Or another program has connected under this end's name and receives its
/// messages: a new connection reclaims the name.
package struct SilentPeerPolicy: Sendable {
  package enum Action: Hashable, Sendable { case wait, ask, reconnect }

  /// The interval between calls of ``tick(isWaiting:progress:)``.
  package static let interval: Duration = .milliseconds(500)
  /// The longest pause before an action; the pauses grow because a peer may be slow. Unit: ticks.
  private static let longestPause = 32
  private static let firstPause = 2
  private var progress: UInt64 = 0
  private var quietTicks = 0
  private var pause = firstPause

  package init() {}

  /// Notes that an interval has passed, and returns the action to take.
  /// - Parameters:
  ///   - isWaiting: Whether this end waits for an answer of its peer.
  ///   - progress: A counter that grows with each message of the peer.
  package mutating func tick(isWaiting: Bool, progress: UInt64) -> Action {
    guard isWaiting, progress == self.progress else {
      self.progress = progress
      quietTicks = 0
      pause = Self.firstPause
      return .wait
    }
    quietTicks += 1
    guard quietTicks >= pause else { return .wait }
    quietTicks = 0
    let action = pause == Self.firstPause ? Action.ask : .reconnect
    pause = min(2 * pause, Self.longestPause)
    return action
  }
}
