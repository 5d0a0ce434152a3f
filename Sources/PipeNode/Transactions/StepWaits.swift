import PipeMachines
import PipeSupport

/// Which of the waits for what nodes are still to tell are worth a line in the log: those that last, and
/// each ever less often.
package struct StepWaits: Sendable {
  package typealias Instant = ContinuousClock.Instant

  /// One to be told.
  package struct Told: Hashable, Sendable {
    package var wait: CompositeSteps.Wait
    package var duration: Duration

    package init(_ wait: CompositeSteps.Wait, for duration: Duration) {
      self.wait = wait
      self.duration = duration
    }

    /// It as the log tells it.
    package var warning: String {
      func list(_ names: [String]) -> String { names.map { "'\($0)'" }.joined(separator: ", ") }
      return "synchronized event \(wait.transaction): \(list(wait.told)) told of it at least "
        + "\(duration.shortText) ago, and \(list(wait.missing)) not yet: until then what "
        + "\(list(wait.told)) did after it counts for no pipe of a composite. Does "
        + "\(wait.missing.count == 1 ? "it" : "each of them") run?"
    }
  }

  private var known: [TransactionID: (since: Instant, due: Instant)] = [:]
  /// Whether somebody is to look again.
  package var isLooking = false

  /// How often it is looked, and how long a wait lasts before it is told first.
  package static let interval: Duration = .seconds(5)

  package init() {}

  /// - Returns: The waits that are to be told now.
  package mutating func look(_ waits: [CompositeSteps.Wait], at now: Instant) -> [Told] {
    let last = known
    known = [:]
    return waits.compactMap { wait in
      let since = last[wait.transaction]?.since ?? now
      let due = last[wait.transaction]?.due ?? now + Self.interval
      let isDue = now >= due
      // Then after twice the time.
      known[wait.transaction] = (since, isDue ? now + (now - since) : due)
      return isDue ? Told(wait, for: now - since) : nil
    }
  }
}
