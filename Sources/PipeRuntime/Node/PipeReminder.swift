/// When a sender announces itself once more, because what it or its receiver said may be lost: a
/// message can go down with a connection that was ending when it was sent.
package struct PipeReminder: Sendable {
  /// How often ``tick(isWaiting:progress:)`` is called.
  package static let interval: Duration = .milliseconds(500)
  /// A receiver may be slow: the pauses grow up to this. Unit: ticks.
  private static let longestPause = 32
  private var progress: UInt64 = 0
  private var quiet = 0
  private var pause = 2

  package init() {}

  /// A while has passed.
  /// - Parameters:
  ///   - isWaiting: Whether the sender waits for a word of its receiver.
  ///   - progress: Grows with each thing that the receiver says.
  /// - Returns: Whether to announce once more.
  package mutating func tick(isWaiting: Bool, progress: UInt64) -> Bool {
    guard isWaiting, progress == self.progress else {
      self.progress = progress
      quiet = 0
      pause = 2
      return false
    }
    quiet += 1
    guard quiet >= pause else { return false }
    quiet = 0
    pause = min(2 * pause, Self.longestPause)
    return true
  }
}
