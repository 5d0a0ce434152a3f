/// The policy for a connected peer that should answer, but is silent.
///
/// There are two likely causes. A message in either direction was lost with a connection that was
/// ending; then asking again helps. Or another program has connected under this end's routing id
/// and receives the answers; then a new connection reclaims the routing id.
package struct SilentPeerPolicy: Sendable {
  package enum Action: Hashable, Sendable { case wait, ask, reconnect }

  /// The interval between calls of ``tick(isWaiting:progress:)``.
  package static let tickInterval: Duration = .milliseconds(500)
  /// The longest pause before an action. The pauses grow, because the peer may only be slow. Unit:
  /// ticks.
  private static let maximumPauseTicks = 32
  private static let firstPauseTicks = 2
  private var lastProgress: UInt64 = 0
  private var quietTicks = 0
  private var pauseTicks = firstPauseTicks

  package init() {}

  /// Notes that an interval has passed, and returns the action that is due.
  /// - Parameters:
  ///   - isWaiting: Whether this end waits for an answer from its peer.
  ///   - progress: A counter that grows with each message from the peer.
  package mutating func tick(isWaiting: Bool, progress: UInt64) -> Action {
    guard isWaiting, progress == self.lastProgress else {
      self.lastProgress = progress
      quietTicks = 0
      pauseTicks = Self.firstPauseTicks
      return .wait
    }
    quietTicks += 1
    guard quietTicks >= pauseTicks else { return .wait }
    quietTicks = 0
    let action = pauseTicks == Self.firstPauseTicks ? Action.ask : .reconnect
    pauseTicks = min(2 * pauseTicks, Self.maximumPauseTicks)
    return action
  }
}
