import CProcess
import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// An event whose step has ended the process too often. It is not retried.
struct PoisonEvent {
  /// The number of ends in a row after which an event is not retried. Unit: ends of the process.
  static let limit = 3

  let step: StepMarkerFile.Step
  let count: Int

  /// Finds the event that was in progress when the last process ended, if it has ended `limit`
  /// processes in a row.
  init?(of journal: Journal, log: NodeLog) throws(JournalError) {
    guard journal.fatalEffect == nil, let step = journal.marker.interrupted else { return nil }
    let count = try journal.countAttempt(of: step)
    log.warning(
      "the previous process ended during the step of event \(step.sequence) of '\(step.source)' "
        + "(\(count) times in a row); after \(Self.limit) times, the event becomes a dead letter")
    guard count >= Self.limit else { return nil }
    self.step = step
    self.count = count
  }

  var reason: String { "the event's step ended the node's process \(count) times in a row" }

  func matches(_ source: String, _ sequence: UInt64) -> Bool {
    step.sequence == sequence && step.source == source
  }
}

extension RequestKey {
  /// The name of the client's requests in the step mark.
  var source: String { "request/" + String(client, radix: 16) }
}

/// An effect that has ended the process too often. It is parked, and runs again only when an
/// operator resends it.
struct PoisonEffect {
  let origin: EffectOrigin
  let count: Int

  /// Finds the effect that ended the last process, if it has ended ``PoisonEvent/limit`` processes
  /// in a row.
  init?(_ origin: EffectOrigin, of journal: Journal, log: NodeLog) throws(JournalError) {
    count = try journal.countAttempt(of: origin)
    self.origin = origin
    log.warning(
      "the effect of step \(origin.version) ended the previous process (\(count) times in a row); "
        + "after \(PoisonEvent.limit) times, the effect becomes a dead letter")
    guard count >= PoisonEvent.limit else { return nil }
  }

  /// Returns the dead letter that represents the effect.
  /// - Parameters:
  ///   - state: The state that the effect belongs to.
  ///   - key: The key of the effect's instance; `nil` in a node with one machine.
  func deadLetter(named name: String, state: JSONValue?, in key: InstanceKey?) -> DeadLetter {
    DeadLetter(
      id: 0, pipe: origin.deadLetterSource(named: name), sequence: origin.version,
      event: .string(name),
      reason: "the effect" + (key.map { " of instance '\($0)'" } ?? "")
        + " ended the node's process \(count) times in a row",
      state: state, version: origin.version, time: WallClock.nanoseconds)
  }
}

extension Journal {
  /// The effect that ended the last process, if the journal lists it as running.
  var fatalEffect: EffectOrigin? {
    guard let origin = marker.fatalEffect else { return nil }
    let isRunning =
      origin.instance == 0
      ? contents?.effects.contains { $0.origin == origin } : try? hasInstanceEffect(origin)
    guard isRunning == true else { return nil }
    return origin
  }
}

/// Records which effect ends the process, by a trap or by `exit`.
///
/// The thread that ends the process writes the record. Work of an effect in a detached task or on
/// its own thread is not attributed to the effect. No effect is recorded if a signal handler
/// finds no stack to run on.
enum CrashWatch {
  // Set once, before the first effect runs.
  nonisolated(unsafe) private static var marker: StepMarkerFile.EffectMarker?

  static func begin(_ marker: StepMarkerFile) {
    self.marker = marker.effectMarker
    // Initializes the value here: a signal handler must not.
    _ = EffectOrigin.recorded
    pr_watch_crashes { if let origin = EffectOrigin.recorded { CrashWatch.marker?.set(origin) } }
  }
}
