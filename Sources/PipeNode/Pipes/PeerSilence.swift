/// What to do about a peer that is connected, owes a word and says nothing.
///
/// What either has said may have gone down with a connection that was ending: it is asked once more. Or
/// another program has connected under this end's name, and is told what was meant for this one: a new
/// connection takes the name back.
package struct PeerSilence: Sendable {
  package enum Action: Hashable, Sendable { case wait, ask, reconnect }

  /// How often ``tick(isWaiting:progress:)`` is called.
  package static let interval: Duration = .milliseconds(500)
  /// A peer may be slow: the pauses grow up to this. Unit: ticks.
  private static let longestPause = 32
  private static let firstPause = 2
  private var progress: UInt64 = 0
  private var quiet = 0
  private var pause = firstPause

  package init() {}

  /// A while has passed.
  /// - Parameters:
  ///   - isWaiting: Whether this end waits for a word of its peer.
  ///   - progress: Grows with each thing that the peer says.
  package mutating func tick(isWaiting: Bool, progress: UInt64) -> Action {
    guard isWaiting, progress == self.progress else {
      self.progress = progress
      quiet = 0
      pause = Self.firstPause
      return .wait
    }
    quiet += 1
    guard quiet >= pause else { return .wait }
    quiet = 0
    let action = pause == Self.firstPause ? Action.ask : .reconnect
    pause = min(2 * pause, Self.longestPause)
    return action
  }
}
