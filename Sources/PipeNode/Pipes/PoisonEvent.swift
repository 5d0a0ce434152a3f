import PipeJournal
import PipeWire

/// An event whose step has ended the process too often; it is not tried again.
struct PoisonEvent {
  /// The ends in a row after which an event is put away. Unit: ends of the process.
  static let limit = 3

  let step: StepMark.Step
  let count: Int

  /// The event under way when the last process ended, where it has ended as many as `limit`.
  init?(of journal: Journal, log: NodeLog) throws(JournalError) {
    guard journal.fatalEffect == nil, let step = journal.mark.interrupted else { return nil }
    let count = try journal.attempts(of: step)
    log.warning(
      "the last process ended during the step of event \(step.sequence) of '\(step.source)': "
        + "\(count) in a row, and after \(Self.limit) the event is put away")
    guard count >= Self.limit else { return nil }
    self.step = step
    self.count = count
  }

  var reason: String { "its step ended the node \(count) times in a row" }

  func matches(_ source: String, _ sequence: UInt64) -> Bool {
    step.sequence == sequence && step.source == source
  }
}

extension RequestKey {
  /// Its name in the mark of the step under way.
  var source: String { "request/" + String(client, radix: 16) }
}
