#if canImport(FoundationEssentials)
  public import struct FoundationEssentials.Date
#else
  public import struct Foundation.Date
#endif

/// The clock of effects: the system's clock, or in a test, a clock that the test advances.
///
/// ```swift
/// func close(speed: Int) async -> Event {
///   try? await EffectClock.sleep(for: .seconds(1) / speed)
///   return .doorHasLocked
/// }
/// ```
///
/// If a node's process dies, the next process runs an unfinished effect again from its beginning.
/// The function that the effect calls determines how long the new run waits:
///
/// - ``sleep(for:)``: for a duration that is the same in each run of the effect, such as
///   `.seconds(1)`. The time that passed in earlier runs is subtracted.
/// - ``sleep(until:)-(Date)``: for a deadline that is set outside the effect, such as a deadline in
///   the state. Each run measures the remaining time again, so no earlier time is subtracted. In
///   contrast, `sleep(for: deadline - now)` would end too early.
public enum EffectClock {
  /// The clock of the effects that the current task performs. A machine's effects use the clock
  /// that was current when the machine's run was made.
  @TaskLocal package static var current: any Clock<Duration> = ContinuousClock()

  /// Suspends the effect for a duration. If the process has died and the effect is run again, the
  /// time that passed in earlier runs is subtracted.
  /// - Parameter duration: The time to wait. A duration of zero or less is no wait. Do not pass the
  ///   time left until a deadline: see ``sleep(until:)-(Date)``.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(for duration: Duration) async throws {
    let run = EffectRun.current
    if let run, duration.looksMeasured, run.hasElapsed {
      Warnings.tell(misuseWarning(duration, of: run))
    }
    try await current.sleep(for: run?.remainingDuration(of: duration) ?? duration)
  }

  /// Suspends the effect until a moment of the wall clock, such as a deadline in the state. An
  /// effect that is run again waits for the same moment.
  /// - Parameter deadline: The moment to wait for. If the moment has passed, there is no wait. The
  ///   remaining time is measured once, so setting the wall clock does not affect a wait in
  ///   progress.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(until deadline: Date) async throws {
    try await sleep(left: .seconds(deadline.timeIntervalSince(Date())))
  }

  /// Suspends the effect until a moment of the continuous clock. Such a moment is meaningless after
  /// a restart of the system. An effect that is run again waits for the same moment.
  /// - Parameter deadline: The moment to wait for. If the moment has passed, there is no wait.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(until deadline: ContinuousClock.Instant) async throws {
    try await sleep(left: ContinuousClock.now.duration(to: deadline))
  }

  private static func sleep(left: Duration) async throws {
    EffectRun.current?.capElapsed(after: left)
    try await current.sleep(for: max(.zero, left))
  }

  private static func misuseWarning(_ duration: Duration, of run: EffectRun) -> String {
    "the effect of step \(run.key?.version ?? 0) is run again and calls "
      + "EffectClock.sleep(for: \(duration)), which looks like the time left until a deadline: the "
      + "elapsed time is subtracted twice, and the sleep ends early; call "
      + "EffectClock.sleep(until:) with the deadline"
  }
}

extension Duration {
  /// Whether the duration looks like the difference of two clock readings, which is usually a
  /// multiple of a nanosecond, but not of a microsecond.
  fileprivate var looksMeasured: Bool {
    let (nanosecond, microsecond) = (1_000_000_000 as Int64, 1_000_000_000_000 as Int64)
    let part = components.attoseconds
    return part % nanosecond == 0 && part % microsecond != 0
  }
}
