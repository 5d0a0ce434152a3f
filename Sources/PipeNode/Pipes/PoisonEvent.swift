import CProcess
import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// An event that is not tried again, because its step has ended the process ``maximumCrashCount``
/// times in a row.
struct PoisonEvent {
  /// The number of consecutive processes that an event ends before it is no longer retried. Unit:
  /// processes.
  static let maximumCrashCount = 3

  let step: StepMarkerFile.Step
  let crashCount: Int

  /// Records that the last process ended during the step of an event. Returns `nil` if no step was
  /// in progress, if an effect ended the process, or if the event has ended fewer than
  /// ``maximumCrashCount`` processes in a row.
  init?(of journal: Journal, log: NodeLog) throws(JournalError) {
    guard journal.fatalEffect == nil, let step = journal.marker.interruptedStep else { return nil }
    let count = try journal.countAttempt(of: step)
    log.warning(
      "the previous process ended during the step of event \(step.sequence) of '\(step.source)' "
        + "(\(count) times in a row); after \(Self.maximumCrashCount) times, the event becomes a dead letter"
    )
    guard count >= Self.maximumCrashCount else { return nil }
    self.step = step
    self.crashCount = count
  }

  var reason: String { "the event's step ended the node's process \(crashCount) times in a row" }

  func matches(_ source: String, _ sequence: UInt64) -> Bool {
    step.sequence == sequence && step.source == source
  }
}

extension RequestKey {
  /// The name that identifies the client's requests in the step marker file.
  var source: String { "request/" + String(client, radix: 16) }
}

/// An effect that has ended the process too often. It becomes a dead letter, and runs again only
/// when an operator resends the dead letter.
struct PoisonEffect {
  let origin: EffectOrigin
  let crashCount: Int

  /// Records that the effect has ended the last process. Returns `nil` if the effect has ended
  /// fewer than ``PoisonEvent/maximumCrashCount`` processes in a row.
  init?(_ origin: EffectOrigin, of journal: Journal, log: NodeLog) throws(JournalError) {
    crashCount = try journal.countAttempt(of: origin)
    self.origin = origin
    log.warning(
      "the \(origin.noun) of step \(origin.version) ended the previous process (\(crashCount) times in a row); "
        + "after \(PoisonEvent.maximumCrashCount) times, the \(origin.noun) becomes a dead letter")
    guard crashCount >= PoisonEvent.maximumCrashCount else { return nil }
  }

  /// Returns a dead letter for the effect.
  /// - Parameters:
  ///   - name: The name of the effect or, for timers, of the state with the timers.
  ///   - state: The state that started the effect.
  ///   - key: The key of the effect's instance; `nil` in a node without instances.
  func deadLetter(named name: String, state: JSONValue?, in key: InstanceKey?) -> DeadLetter {
    DeadLetter(
      id: 0, pipe: origin.deadLetterSource(named: name), sequence: origin.version,
      event: .string(name),
      reason: "the \(origin.noun)" + (key.map { " of instance '\($0)'" } ?? "")
        + " ended the node's process \(crashCount) times in a row",
      state: state, version: origin.version, time: WallClock.nanoseconds)
  }
}

extension EffectOrigin {
  /// The noun for messages about the origin: `effect` or `timer`.
  var noun: String { feedback == Self.timers ? "timer" : "effect" }
}

extension Journal {
  /// The effect that ended the last process. `nil` if no effect ended the process, or if the
  /// journal does not list the effect as running.
  var fatalEffect: EffectOrigin? {
    guard let origin = marker.fatalEffect else { return nil }
    let isRunning =
      origin.instance == 0
      ? contents?.effects.contains { $0.origin == origin } : try? hasInstanceEffect(origin)
    guard isRunning == true else { return nil }
    return origin
  }
}

/// Records which effect ends the process, whether by a trap or by `exit`.
///
/// The thread that ends the process writes the record. So if a detached task or another thread of
/// an effect ends the process, no effect is recorded. The same applies if the signal handler has no
/// stack to run on.
enum CrashWatch {
  // Set once, before the first effect runs.
  nonisolated(unsafe) private static var marker: StepMarkerFile.EffectMarker?

  static func begin(_ marker: StepMarkerFile) {
    self.marker = marker.effectMarker
    // Initializes the lazy value before any signal, because a signal handler must not initialize
    // it.
    _ = EffectOrigin.recorded
    pr_watch_crashes { if let origin = EffectOrigin.recorded { CrashWatch.marker?.set(origin) } }
  }
}
