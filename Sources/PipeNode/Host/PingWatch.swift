/// Tells when an orchestrator's pings have stopped.
package struct PingWatch: Sendable {
  /// When the next one is missed. Unit: nanoseconds of ``BootClock``.
  package private(set) var due: Int64 = 0
  /// How often one was missed since the last came.
  package private(set) var silences: UInt64 = 0
  private var patience: Int64 = 0

  /// The longest pause between two looks.
  private static let longest: Int64 = 30_000_000_000

  /// A look that is later than this was held up itself: a ping may have come and not be read yet.
  private static let lateness: Int64 = 500_000_000

  package init() {}

  /// A ping has come, which says how long it is to the next.
  package mutating func heard(at now: Int64, interval: Duration) {
    // Before the orchestrator finds the node hung, which takes five intervals.
    patience = interval.clampedNanoseconds / 2 * 5
    silences = 0
    due = now + patience
  }

  /// Whether one is missed. The pauses grow from one to the next.
  package mutating func isSilent(at now: Int64) -> Bool {
    guard now >= due else { return false }
    guard now - due <= Self.lateness else {
      due = now + Self.lateness
      return false
    }
    silences += 1
    patience = min(2 * patience, max(patience, Self.longest))
    due = now + patience
    return true
  }
}
