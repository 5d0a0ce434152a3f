import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// Records the steps of a machine: its state, and its effects.
final class MachineSteps<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let incarnation: UInt64
  /// The recorded version; `nil` before the initial state is recorded.
  private var recordedVersion: UInt64?
  /// The size of the recorded state as JSON. Unit: bytes.
  private var recordedSize = 0
  private var encodedSize = 0
  /// The version at the start of this process.
  private var firstVersion: UInt64 = 0
  /// The time and the cause of the last entry into a state.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var last = (time: Int64(0), cause: "")
  /// The time and the cause of the last intermediate state of a transition.
  private var lastIntermediate = (time: Int64(0), cause: "")
  /// The durations of the steps that are measured.
  @exclusivity(unchecked)
  private(set) var durations = DurationCounts()
  /// The effects that an earlier process had not ended, until the start; `nil` without an earlier
  /// process.
  private var restored: [(state: Hosted.State, effect: JournalContents.Effect)]?
  /// The restored effects that are dead letters.
  private var parkedOrigins: Set<EffectOrigin> = []

  /// Reads the journal's contents. Throws if they do not belong to this machine.
  @export(interface)
  init(_ core: MachineCore<Hosted>, incarnation: UInt64) throws {
    self.core = core
    self.incarnation = incarnation
    guard let contents = core.journal?.contents else { return }
    let record = contents.record
    core.engine.restore(try state(record.state), version: record.version)
    restored = try contents.effects.map { (try state($0.state), $0) }
    parkedOrigins = try core.journal?.deadLetteredEffects() ?? []
    last = (record.time, record.cause)
    recordedVersion = record.version
    firstVersion = record.version
    recordedSize = record.state.count
    encodedSize = recordedSize
    try checkSize()
  }

  /// Throws if the recorded state is too large to be shown; warns if it exceeds the limit for
  /// steps.
  private func checkSize() throws {
    guard recordedSize > StateSizeLimit.byteCount else { return }
    let path = core.journal?.path ?? ""
    guard recordedSize <= WireLimits.messageByteCount / 4 * 3 else {
      throw JournalError.stateTooLarge(path: path, node: core.node, byteCount: recordedSize)
    }
    core.log.warning(
      "the journal '\(path)' has a state of \(recordedSize) bytes as JSON; the limit is "
        + "\(StateSizeLimit.byteCount); steps to an even larger state are refused")
  }

  private func state(_ bytes: [UInt8]) throws -> Hosted.State {
    do { return try core.states.decode(bytes) } catch {
      throw JournalError.undecodable(
        path: core.journal?.path ?? "", node: core.node, problem: "state \(error)")
    }
  }

  /// The number of steps of this process.
  var count: UInt64 { core.engine.version - firstVersion - core.engine.intermediateStateCount }

  /// The time and the cause of the state that is shown.
  var shown: (time: Int64, cause: String) { core.engine.isIntermediate ? lastIntermediate : last }

  func entered(because cause: String) { last = (WallClock.nanoseconds, cause) }

  /// Counts the duration of a step that has ended.
  /// - Parameter start: The time at which the step began. Unit: nanoseconds of ``BootClock``.
  func addDuration(since start: Int64) {
    durations.add(nanoseconds: BootClock.nanoseconds - start)
  }

  func enteredIntermediateState(because cause: String) {
    lastIntermediate = (WallClock.nanoseconds, cause)
  }

  /// Enters the initial state, or resumes where the last process stopped.
  /// - Returns: Whether the machine resumes, in a state that was entered before.
  @export(interface)
  func start() -> Bool {
    guard let effects = restored else {
      core.engine.start()
      Failpoint.hit(.startAfter)
      return false
    }
    restored = nil
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
          of: state, origin, elapsed: effect.elapsed,
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
    let state = core.stateText
    let shown = state.utf8.count > 200 ? state.prefix(200) + "…" : state[...]
    core.log.note("restored at version \(core.engine.version) in state \(shown)")
  }

  // MARK: Records

  var hasUnrecordedChanges: Bool {
    core.engine.settledVersion != recordedVersion || core.engine.effects.hasUnrecordedChanges
  }

  func recordState(into journal: Journal) throws {
    let version = core.engine.settledVersion
    guard version != recordedVersion else { return }
    let state = try core.encode(core.engine.settledState, version: version)
    // One of several steps led to this state. The next process takes these steps again, and refuses
    // that step.
    guard core.meter.isExact || state.count <= max(StateSizeLimit.byteCount, recordedSize) else {
      journal.marker.measureEachStepNext()
      throw NodeSetupError(
        "a step produced a state of \(state.count) bytes as JSON; the limit is "
          + "\(StateSizeLimit.byteCount); after a restart, the node repeats its last steps and "
          + "refuses this step")
    }
    encodedSize = state.count
    core.meter.measured(byteCount: state.count)
    try journal.moved(
      to: state, version: version,
      steps: version - (recordedVersion ?? 0), cause: last.cause, time: last.time,
      incarnation: incarnation)
  }

  @export(interface)
  func recordEffects(into journal: Journal) throws {
    let effects = core.engine.effects.changesToRecord()
    for origin in effects.ended { try journal.effectEnded(origin) }
    for effect in effects.started {
      try core.noteProgress(of: effect.origin, in: journal)
      try journal.effectStarted(
        effect.origin,
        state: core.encode(earlier: effect.state, version: effect.origin.version),
        progress: effect.progress ?? BootClock.now)
    }
  }

  func stateRecorded() {
    recordedVersion = core.engine.settledVersion
    recordedSize = encodedSize
  }
}
