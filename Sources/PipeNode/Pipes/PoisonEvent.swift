import CProcess
import PipeJournal
import PipeMachines
import PipeSupport
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

/// An effect that has ended the process too often; it is parked, and runs again only when a person says so.
struct PoisonEffect {
  let origin: EffectOrigin
  let count: Int

  /// The effect that ended the last process, where it has ended ``PoisonEvent/limit`` in a row.
  init?(_ origin: EffectOrigin, of journal: Journal, log: NodeLog) throws(JournalError) {
    count = try journal.attempts(of: origin)
    self.origin = origin
    log.warning(
      "the effect of step \(origin.version) ended the last process: \(count) in a row, and after "
        + "\(PoisonEvent.limit) the effect is put away")
    guard count >= PoisonEvent.limit else { return nil }
  }

  /// The dead letter that stands for it.
  /// - Parameter state: The state that it belongs to.
  func letter(named name: String, state: JSONValue?) -> DeadLetter {
    DeadLetter(
      id: 0, pipe: origin.letterSource(named: name), sequence: origin.version,
      event: .string(name), reason: "the effect ended the node \(count) times in a row",
      state: state, version: origin.version, time: WallClock.nanoseconds)
  }
}

extension Journal {
  /// The effect that ended the last process, where it was still under way.
  var fatalEffect: EffectOrigin? {
    guard let origin = mark.fatalEffect,
      contents?.effects.contains(where: { $0.origin == origin }) == true
    else { return nil }
    return origin
  }
}

/// Writes down which effect ends the process, by a trap or by `exit`.
///
/// The thread that ends it does so. The work of an effect that goes on in a detached task, or on a thread of its
/// own, is not known as the effect's; nor is any, where a signal finds no stack left to be handled on.
enum CrashWatch {
  // Set once, before the first effect runs.
  nonisolated(unsafe) private static var mark: StepMark.EffectMark?

  static func begin(_ mark: StepMark) {
    self.mark = mark.effectMark
    // Makes the value, which a handler must not.
    _ = EffectOrigin.recorded
    pr_watch_crashes { if let origin = EffectOrigin.recorded { CrashWatch.mark?.set(origin) } }
  }
}
