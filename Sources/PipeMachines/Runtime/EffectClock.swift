#if canImport(FoundationEssentials)
  public import struct FoundationEssentials.Date
#else
  public import struct Foundation.Date
#endif

/// The time that effects go by: the real one, or in a test one that the test moves.
///
/// ```swift
/// func close(speed: Int) async -> Event {
///   try? await EffectClock.sleep(for: .seconds(1) / speed)
///   return .doorHasLocked
/// }
/// ```
///
/// An effect that is run again, because its process died, begins anew. Which function it calls says what the time
/// counts from:
///
/// - ``sleep(for:)``: a time that counts from the start of the effect, the same at each run: `.seconds(1)`. What
///   has passed in earlier runs is taken off.
/// - ``sleep(until:)-(Date)``: a deadline that something else has set, such as one in the state. The time that is
///   left is measured at each run, so that nothing may be taken off: `sleep(for: deadline - now)` would end early.
public enum EffectClock {
  /// The clock of the task's effects: the one that was current where their machine was made.
  @TaskLocal package static var current: any Clock<Duration> = ContinuousClock()

  /// Suspends the effect for a time that counts from its start. An effect that is run again, because its process
  /// died, waits for what is left of it.
  /// - Parameter duration: How long; not at all, if it is not positive. Not the time left until a deadline: see
  ///   ``sleep(until:)-(Date)``.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(for duration: Duration) async throws {
    let run = EffectRun.current
    if let run, duration.isMeasured, run.hasElapsed { Warnings.tell(misuse(duration, of: run)) }
    try await current.sleep(for: run?.remaining(of: duration) ?? duration)
  }

  /// Suspends the effect until a moment of the wall clock, such as a deadline in the state. An effect that is run
  /// again waits for the same moment.
  /// - Parameter deadline: When; there is no wait for a moment that has passed. The time left is measured once: a
  ///   wall clock that is set during the wait does not change it.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(until deadline: Date) async throws {
    try await sleep(left: .seconds(deadline.timeIntervalSince(Date())))
  }

  /// Suspends the effect until a moment of the continuous clock, which means nothing after a start of the system.
  /// An effect that is run again waits for the same moment.
  /// - Parameter deadline: When; there is no wait for a moment that has passed.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(until deadline: ContinuousClock.Instant) async throws {
    try await sleep(left: ContinuousClock.now.duration(to: deadline))
  }

  private static func sleep(left: Duration) async throws {
    EffectRun.current?.keepElapsed(after: left)
    try await current.sleep(for: max(.zero, left))
  }

  private static func misuse(_ duration: Duration, of run: EffectRun) -> String {
    "the effect of step \(run.key?.version ?? 0) is run again and calls EffectClock.sleep(for: \(duration)), which "
      + "looks like the time left until a deadline: the time that has passed is taken off twice, and it ends "
      + "early. Call EffectClock.sleep(until:) with the deadline"
  }
}

extension Duration {
  /// Whether it looks like one that a clock has measured: of nanoseconds, and of no round number of them.
  fileprivate var isMeasured: Bool {
    let (nanosecond, microsecond) = (1_000_000_000 as Int64, 1_000_000_000_000 as Int64)
    let part = components.attoseconds
    return part % nanosecond == 0 && part % microsecond != 0
  }
}
