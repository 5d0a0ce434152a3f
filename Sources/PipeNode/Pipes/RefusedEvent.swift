import PipeMachines
import PipeSupport
import PipeWire

/// An event that a machine or a composite has permanently refused.
struct RefusedEvent {
  /// The name of the pipe that delivered the event; `request` for an event from a client.
  let pipe: String
  let sequence: UInt64
  /// The event as JSON, or as a JSON string if the event could not be decoded.
  let event: JSONValue
  let reason: String
  /// The schema version for which the event is encoded.
  var schema = 1
  /// The state that refused the event; `nil` if the receiver is a composite.
  var state: JSONValue?
  /// The state that refused the event, as text for log messages.
  var stateText: String?
  var version: UInt64 = 0

  private var wording: String {
    "pipe '\(pipe)': event \(sequence) \(event.text): \(reason)"
      + (stateText.map { ", in state \($0)" } ?? "")
  }

  /// Applies the pipe's refusal policy to the event, which will not be tried again.
  /// - Returns: The reason why the node must fail; `nil` if the event is a dead letter now, or
  ///   counts as lost.
  func dispose(
    _ policy: RefusalPolicy, in deadLetters: inout DeadLetters, log: NodeLog
  ) -> String? {
    switch policy {
    case .fail: return wording + "; the pipe has 'on_refused: fail'"
    case .record, .ignore, .postpone:
      let isKept = deadLetters.add(
        DeadLetter(
          id: 0, pipe: pipe, sequence: sequence, event: event, reason: reason, state: state,
          version: version, time: WallClock.nanoseconds, schema: schema))
      if !isKept, deadLetters.lostCount.isWorthLogging {
        log.warning(
          "\(wording); the event is lost: the limit of \(deadLetters.reachedLimit) dead letters is reached "
            + "(\(deadLetters.lostCount) lost so far); 'orchestrator dead-letters' lists, resends and drops "
            + "dead letters")
      } else if isKept, deadLetters.lastID.isWorthLogging {
        log.warning("\(wording) (\(deadLetters.lastID) dead letters so far)")
      }
      return nil
    }
  }
}
