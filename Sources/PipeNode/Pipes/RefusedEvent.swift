import PipeMachines
import PipeSupport
import PipeWire

/// An event that is refused for good, by a machine or by a composite.
struct RefusedEvent {
  /// The pipe that brought it; `request` where a client sent it.
  let pipe: String
  let sequence: UInt64
  /// As JSON, or as text where it did not decode.
  let event: JSONValue
  let reason: String
  /// The state that refused it, where it is one node's.
  var state: JSONValue?
  /// The same for people.
  var stateText: String?
  var version: UInt64 = 0

  private var wording: String {
    "pipe '\(pipe)': event \(sequence) \(event.text): \(reason)"
      + (stateText.map { ", in state \($0)" } ?? "")
  }

  /// Does what its pipe says of an event that no other state will take.
  /// - Returns: Why the node has to fail; `nil` where the event is among the dead letters now.
  func dispose(
    _ policy: RefusalPolicy, in letters: inout DeadLetters, log: NodeLog
  ) -> String? {
    switch policy {
    case .fail: return wording + ", and the pipe says 'on_refused: fail'"
    case .record, .postpone:
      let isKept = letters.add(
        DeadLetter(
          id: 0, pipe: pipe, sequence: sequence, event: event, reason: reason, state: state,
          version: version, time: WallClock.nanoseconds))
      if !isKept, letters.lost.isWorthLogging {
        log.warning(
          "\(wording). It is not kept: there are \(letters.present) dead letters, the most that a "
            + "node keeps (\(letters.lost) lost so far). 'orchestrator letters' lists, resends and "
            + "drops them")
      } else if isKept, letters.count.isWorthLogging {
        log.warning("\(wording) (\(letters.count) dead letters so far)")
      }
      return nil
    }
  }
}
