import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// Records the steps of a machine: its states, effects and timers.
final class MachineSteps<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let incarnation: UInt64
  /// The version of the last recorded state; `nil` before the initial state is recorded.
  private var recordedVersion: UInt64?
  /// The size of the recorded state as JSON. Unit: bytes.
  private var recordedSize = 0
  private var encodedSize = 0
  /// The version at the start of this process.
  private var firstVersion: UInt64 = 0
  /// The time and the cause of the last entry into a state.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var lastStep = (time: Int64(0), cause: "")
  /// The time and the cause of the last entry into an intermediate state.
  private var lastIntermediateStep = (time: Int64(0), cause: "")
  /// The durations of the measured steps.
  @exclusivity(unchecked)
  private(set) var stepDurations = DurationCounts()
  /// The effects that had not ended when the last process ended, each with the state that started
  /// it. `nil` after the start, or if there was no earlier process.
  private var restoredEffects: [(state: Hosted.State, effect: JournalContents.Effect)]?
  /// The timers of the restored state; `nil` if the earlier process had no timers.
  private var restoredTimers: JournalContents.Effect?
  /// The recorded timers of a machine that no longer has timers; `nil` after they are removed from
  /// the journal.
  private var obsoleteTimers: EffectOrigin?
  /// The restored effects that are dead letters.
  private var parkedOrigins: Set<EffectOrigin> = []

  /// Restores the state from the journal. Throws an error if the journal's contents do not fit this
  /// machine.
  @export(interface)
  init(_ core: MachineCore<Hosted>, incarnation: UInt64) throws {
    self.core = core
    self.incarnation = incarnation
    guard let contents = core.journal?.contents else { return }
    let record = contents.record
    core.engine.restore(try decodeState(record.state, record.schema), version: record.version)
    restoredTimers = contents.effects.last { $0.origin.feedback == EffectOrigin.timers }
    restoredEffects = try contents.effects.filter { $0.origin.feedback != EffectOrigin.timers }
      .map { (try decodeState($0.state, $0.schema), $0) }
    parkedOrigins = try core.journal?.deadLetteredEffects() ?? []
    lastStep = (record.time, record.cause)
    recordedVersion = record.version
    firstVersion = record.version
    recordedSize = record.state.count
    encodedSize = recordedSize
    try checkSize()
  }

  /// Throws an error if the recorded state is too large to be published. Logs a warning if the
  /// state exceeds the maximum size of a state after a step.
  private func checkSize() throws {
    guard recordedSize > StateSizeLimit.maximumByteCount else { return }
    let path = core.journal?.path ?? ""
    guard recordedSize <= WireLimits.maximumMessageByteCount / 4 * 3 else {
      throw JournalError.stateTooLarge(path: path, node: core.node, byteCount: recordedSize)
    }
    core.log.warning(
      "the journal '\(path)' has a state of \(recordedSize) bytes as JSON; the limit is "
        + "\(StateSizeLimit.maximumByteCount); steps to an even larger state are refused")
  }

  private func decodeState(_ bytes: [UInt8], _ schema: Int) throws -> Hosted.State {
    do { return try Hosted.decodeState(bytes, schema: schema, by: core.states) } catch {
      throw JournalError.undecodable(error, in: core.journal, node: core.node, what: "state")
    }
  }

  /// The number of steps that this process has taken.
  var stepCount: UInt64 { core.engine.version - firstVersion - core.engine.intermediateStateCount }

  /// The time and the cause of the published state.
  var publishedStep: (time: Int64, cause: String) {
    core.engine.isIntermediate ? lastIntermediateStep : lastStep
  }

  func entered(because cause: String) { lastStep = (WallClock.nanoseconds, cause) }

  /// Counts the duration of a step that has ended.
  /// - Parameter start: The time at which the step began. Unit: nanoseconds of ``BootClock``.
  func addDuration(since start: Int64) {
    stepDurations.add(nanoseconds: BootClock.nanoseconds - start)
  }

  func enteredIntermediateState(because cause: String) {
    lastIntermediateStep = (WallClock.nanoseconds, cause)
  }

  /// Enters the initial state, or resumes in the recorded state.
  /// - Returns: Whether the machine has resumed in a recorded state.
  @export(interface)
  func start() -> Bool {
    guard let effects = restoredEffects else {
      core.engine.start()
      Failpoint.hit(.startAfter)
      return false
    }
    restoredEffects = nil
    resume(effects)
    return true
  }

  @export(interface)
  private func resume(_ effects: [(state: Hosted.State, effect: JournalContents.Effect)]) {
    core.engine.resume()
    for (state, effect) in effects {
      let origin = effect.origin
      let isPoison = core.poisonEffect?.origin == origin
      guard
        core.engine.resumeEffect(
          of: state, origin, elapsed: effect.elapsedTime,
          isParked: isPoison || parkedOrigins.contains(origin))
      else {
        core.log.warning(
          "cannot resume the effect of step \(origin.version): the machine no longer has this "
            + "effect"
        )
        continue
      }
      if isPoison, let poison = core.poisonEffect { core.park(poison, of: state) }
    }
    resumeTimers()
    let state = core.stateText
    let shown = state.utf8.count > 200 ? state.prefix(200) + "…" : state[...]
    core.log.note("restored at version \(core.engine.version) in state \(shown)")
  }

  /// Continues the timers of the restored state with their deadlines. If the earlier process had no
  /// timers for the state, because its machine had no timers, the timers start now.
  @export(interface)
  private func resumeTimers() {
    guard let timers = core.engine.timers else {
      obsoleteTimers = restoredTimers?.origin
      return
    }
    let state = core.engine.state
    do throws(InvalidTimerError) {
      guard let recorded = restoredTimers else { return try core.engine.startTimers() }
      let origin = recorded.origin
      let poison = core.poisonEffect.flatMap { $0.origin == origin ? $0 : nil }
      let isRunning = try timers.resume(
        of: state, version: origin.version, since: recorded.startInstant,
        elapsed: BootClock.now.duration(since: recorded.startInstant, isSameBoot: true),
        isParked: poison != nil || parkedOrigins.contains(origin))
      guard isRunning else {
        return core.log.warning(
          "cannot resume the timer of step \(origin.version): the machine no longer has a timer in "
            + "this state")
      }
      if let poison { core.park(poison, of: state) }
    } catch {
      core.onEnd?(error.description)
    }
  }

  // MARK: Recording states, effects and timers

  var hasUnrecordedChanges: Bool {
    core.engine.settledVersion != recordedVersion || core.engine.effects.hasUnrecordedChanges
      || core.engine.timers?.hasUnrecordedChanges == true
  }

  func recordState(into journal: Journal) throws {
    let version = core.engine.settledVersion
    guard version != recordedVersion else { return }
    let state = try core.encode(core.engine.settledState, version: version)
    // If the state is too large, one of the steps since the last record has produced it. The next
    // process repeats these steps, measures the state after each step, and refuses the step with
    // the large state.
    guard core.meter.isExact || state.count <= max(StateSizeLimit.maximumByteCount, recordedSize)
    else {
      journal.marker.requestStateMeasurement()
      throw NodeSetupError(
        "a step produced a state of \(state.count) bytes as JSON; the limit is "
          + "\(StateSizeLimit.maximumByteCount); after a restart, the node repeats its last steps and "
          + "refuses this step")
    }
    encodedSize = state.count
    core.meter.recordMeasurement(byteCount: state.count)
    try journal.recordState(
      to: state, version: version,
      steps: version - (recordedVersion ?? 0), cause: lastStep.cause, time: lastStep.time,
      incarnation: incarnation)
  }

  @export(interface)
  func recordEffects(into journal: Journal) throws {
    let effects = core.engine.effects.changesToRecord()
    for origin in effects.ended { try journal.recordEffectEnd(origin) }
    for effect in effects.started {
      try core.noteProgress(of: effect.origin, in: journal)
      try journal.recordEffectStart(
        effect.origin,
        state: core.encode(earlier: effect.state, version: effect.origin.version),
        progress: effect.lastProgress ?? BootClock.now)
    }
  }

  /// Records which timers run. The entry into their state is part of the same record.
  @export(interface)
  func recordTimers(into journal: Journal) throws {
    guard let timers = core.engine.timers, timers.hasUnrecordedChanges else {
      if let obsoleteTimers { try journal.recordEffectEnd(obsoleteTimers) }
      return
    }
    if let former = timers.recordedVersion, former != timers.entry?.version {
      try journal.recordEffectEnd(EffectOrigin(version: former, feedback: EffectOrigin.timers))
    }
    guard let entry = timers.entry, let next = timers.runningTimers.first else { return }
    let origin = EffectOrigin(version: entry.version, feedback: EffectOrigin.timers)
    try core.noteProgress(of: origin, in: journal)
    try journal.recordTimersStart(origin, delay: next.duration, since: entry.instant)
  }

  func stateRecorded() {
    core.engine.timers?.didRecord()
    obsoleteTimers = nil
    recordedVersion = core.engine.settledVersion
    recordedSize = encodedSize
  }
}
