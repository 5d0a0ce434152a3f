import PipeMachines
import PipeSupport

/// The timer that is due first in a node's state.
public struct RunningTimer: Codable, Hashable, Sendable {
  /// The time from the entry into the state to the timer, such as `30 s`.
  public var after: String
  /// The time when the timer is due. Unit: nanoseconds since 1970.
  public var due: Int64
  /// The name of the state that the transition leads to; `nil` if it is not known.
  public var target: String?

  package init(after: String, due: Int64, target: String? = nil) {
    self.after = after
    self.due = due
    self.target = target
  }

  /// The time until the timer is due, at least 0.
  /// - Parameter now: The current time. Unit: nanoseconds since 1970.
  package func remaining(at now: Int64) -> Duration { .nanoseconds(max(0, due - now)) }

  /// A description of the timer: `after 30 s: expired in 12.4 s`, where `expired` is the target
  /// state.
  package func text(at now: Int64) -> String {
    let remaining = remaining(at: now)
    let outcome = target ?? "a transition"
    return remaining == .zero
      ? "after \(after): \(outcome), due now"
      : "after \(after): \(outcome) in \(remaining.shortText)"
  }

  /// The timer as a JSON object.
  package var record: JSONValue {
    ["after": .string(after), "due": .integer(due), "target": .optional(target)]
  }
}
